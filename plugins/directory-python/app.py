"""plugins/directory in Python: volumes are directories of a pool that the administrator grants as `volumes`. An id is made of the volume's name,
its size is a record under the id, written last and removed last: a call that dies half-way is completed by its retry.

What the host answers as an error is raised by the import as `Err`, and passes through.
"""

import hashlib
import re

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.capacity import Available
from wit_world.exports.controller import Validation_Confirmed, Validation_Unsupported
from wit_world.exports.controller_expand import Expanded
from wit_world.exports.identity import PluginInfo
from wit_world.imports import node_plan, pool, state, types
from wit_world.imports.types import Code

VOLUMES = "volumes"
ID = re.compile("directory-[0-9a-f]{64}")  # ids arrive from clients: one that was not made here may be `../../etc`
RESERVED = ("csi.storage.k8s.io/", "storage.kubernetes.io/")  # Kubernetes itself adds such keys: `--extra-create-metadata`
MINIMUM_BYTES = 4 << 10  # one block of a file system
DEFAULT_BYTES = 1 << 30  # for a claim that names no size
UNLIMITED = (1 << 64) - 1
MODES = (
    types.AccessMode_SingleNodeWriter,
    types.AccessMode_SingleNodeReaderOnly,
    types.AccessMode_SingleNodeSingleWriter,
    types.AccessMode_SingleNodeMultiWriter,
)


def fail(code, message):
    raise Err(types.Error(code, message))


def check(capabilities, parameters):
    """A directory is no block device, is on one node at a time, and has nothing to choose; a misspelt parameter must not pass in silence."""
    for name, _ in parameters:
        if not name.startswith(RESERVED):
            fail(Code.INVALID_ARGUMENT, f"unknown parameter `{name}`: this driver knows none")
    for capability in capabilities:
        if not isinstance(capability.access_type, types.AccessType_Mount):
            fail(Code.INVALID_ARGUMENT, "volumes of this driver are file systems: use volumeMode Filesystem")
        if not isinstance(capability.access_mode, MODES):
            reason = "volumes of this driver are used on one node at a time: use ReadWriteOnce or ReadWriteOncePod"
            fail(Code.INVALID_ARGUMENT, reason)


def limit(capacity):
    return UNLIMITED if capacity.limit_bytes is None else capacity.limit_bytes


def within_limit(capacity, size):
    if size > limit(capacity):
        fail(Code.OUT_OF_RANGE, f"the volume takes {size} bytes, the limit is {limit(capacity)}: raise the limit")
    return size


def agree(capacity, known):
    """The size of a volume that an earlier call of the same name may have made."""
    if known is not None:
        size = int(known.value)
        if not (capacity.required_bytes or 0) <= size <= limit(capacity):
            fail(Code.ALREADY_EXISTS, f"a volume of this name is there with {size} bytes: use another name")
        return size
    unasked = min(DEFAULT_BYTES, limit(capacity))
    size = unasked if capacity.required_bytes is None else capacity.required_bytes
    return within_limit(capacity, max(size, MINIMUM_BYTES))


def require(id):
    entry = state.get(id)
    return entry if entry is not None else fail(Code.NOT_FOUND, f"`{id}` does not exist")


def put(id, size, expect):
    """Somebody else's record of the same size is as good as ours: the call was made twice."""
    outcome = state.put(id, str(size).encode(), expect)
    if isinstance(outcome, state.Outcome_Conflict):
        there = outcome.value
        if not (isinstance(expect, state.Expect_Absent) and there is not None and int(there.value) == size):
            fail(Code.ABORTED, f"another call changed `{id}` meanwhile: retry")


def create_directory_of(id, size):
    """Makes a directory and promises bytes to it, or neither: a directory that was there before stays."""
    before = pool.stat(VOLUMES, id)
    pool.create_directory(VOLUMES, id)
    try:
        pool.set_quota(VOLUMES, id, size)
    except Err:
        if before is None:
            pool.remove_directory(VOLUMES, id)
        raise


class Identity(exports.Identity):
    def get_plugin_info(self):
        return PluginInfo("directory-python.wasmount.io", "0.1.0", [], ["single-node-multi-writer"])

    def probe(self):
        return True

    def check_settings(self):
        return []


class Controller(exports.Controller):
    def create_volume(self, args):
        check(args.capabilities, args.parameters + args.mutable_parameters)
        if args.content_source is not None:
            fail(Code.INVALID_ARGUMENT, "volumes of this driver start empty: create one without dataSource")
        id = "directory-" + hashlib.sha256(args.name.encode()).hexdigest()
        size = agree(args.capacity, state.get(id))
        create_directory_of(id, size)
        pool.set_permissions(VOLUMES, id, 0o777, None, None)  # pods run as any user
        put(id, size, state.Expect_Absent())
        return types.Volume(id, size, [], None, [])

    def delete_volume(self, id):
        if ID.fullmatch(id):
            pool.remove_directory(VOLUMES, id)
            state.remove(id, state.Expect_Any())

    def validate_volume_capabilities(self, args):
        require(args.id)
        try:
            check(args.capabilities, args.parameters)
        except Err as refusal:
            return Validation_Unsupported(refusal.value.message)
        return Validation_Confirmed()


class ControllerExpand(exports.ControllerExpand):
    def expand_volume(self, args):
        record = require(args.id)
        size = within_limit(args.capacity, max(int(record.value), args.capacity.required_bytes or 0))
        pool.set_quota(VOLUMES, args.id, size)
        put(args.id, size, state.Expect_Revision(record.revision))
        return Expanded(size, False)


class Capacity(exports.Capacity):
    def get_capacity(self, args):
        try:
            check(args.capabilities, args.parameters)
        except Err:
            return Available(0, 0, None)
        size = pool.capacity(VOLUMES).available_bytes
        return Available(size, size, None)


class NodeStage(exports.NodeStage):
    def node_stage(self, args):
        if not ID.fullmatch(args.id):
            fail(Code.NOT_FOUND, "this driver makes no such ids: nothing has it")
        node_plan.directory(VOLUMES, args.id)
