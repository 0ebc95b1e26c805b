// plugins/directory in JavaScript: volumes are directories of a pool that the administrator grants as `volumes`. An id is made of the volume's name,
// its size is a record under the id, written last and removed last: a call that dies half-way is completed by its retry.
//
// A function answers its value, or throws `{ code, message }`. What the host answers as an error is thrown by the import, and passes through.
import plan from "wasmount:csi/node-plan@0.1.0";
import pool from "wasmount:csi/pool@0.1.0";
import state from "wasmount:csi/state@0.1.0";
import { sha256 } from "./sha256.js";

const VOLUMES = "volumes";
const ID = /^directory-[0-9a-f]{64}$/; // ids arrive from clients: one that was not made here may be `../../etc`
const RESERVED = /^(csi\.storage\.k8s\.io|storage\.kubernetes\.io)\//; // Kubernetes itself adds such keys: `--extra-create-metadata`
const MINIMUM_BYTES = 4 << 10; // one block of a file system
const DEFAULT_BYTES = 1 << 30; // for a claim that names no size
const MODES = ["single-node-writer", "single-node-reader-only", "single-node-single-writer", "single-node-multi-writer"];

const fail = (code, message) => { throw { code, message }; };

// A directory is no block device, is on one node at a time, and has nothing to choose; a misspelt parameter must not pass in silence.
function check(capabilities, ...parameters) {
  for (const [name] of parameters.flat())
    if (!RESERVED.test(name)) fail("invalid-argument", `unknown parameter \`${name}\`: this driver knows none`);
  for (const { accessType, accessMode } of capabilities) {
    if (accessType.tag !== "mount") fail("invalid-argument", "volumes of this driver are file systems: use volumeMode Filesystem");
    if (!MODES.includes(accessMode.tag))
      fail("invalid-argument", "volumes of this driver are used on one node at a time: use ReadWriteOnce or ReadWriteOncePod");
  }
}

// Why a check fails, or undefined.
function refusal(check) {
  try { check(); } catch (error) { return error.message; }
}

function withinLimit({ limitBytes }, bytes) {
  if (bytes > (limitBytes ?? Infinity)) fail("out-of-range", `the volume takes ${bytes} bytes, the limit is ${limitBytes}: raise the limit`);
  return bytes;
}

// The size of a volume that an earlier call of the same name may have made.
function agree({ requiredBytes, limitBytes }, known) {
  if (known) {
    if (known.bytes < (requiredBytes ?? 0) || known.bytes > (limitBytes ?? Infinity))
      fail("already-exists", `a volume of this name is there with ${known.bytes} bytes: use another name`);
    return known.bytes;
  }
  return withinLimit({ limitBytes }, Math.max(requiredBytes ?? Math.min(DEFAULT_BYTES, limitBytes ?? Infinity), MINIMUM_BYTES));
}

const decoded = ({ value, revision }) => ({ bytes: Number(String.fromCharCode(...value)), revision });
const encoded = (bytes) => Uint8Array.from(String(bytes), (digit) => digit.charCodeAt());

function get(id) {
  const entry = state.get(id);
  return entry && decoded(entry);
}

const require = (id) => get(id) ?? fail("not-found", `\`${id}\` does not exist`);

// Somebody else's record of the same size is as good as ours: the call was made twice.
function put(id, bytes, expect) {
  const { tag, val } = state.put(id, encoded(bytes), expect);
  if (tag === "conflict" && !(expect.tag === "absent" && val && decoded(val).bytes === bytes))
    fail("aborted", `another call changed \`${id}\` meanwhile: retry`);
}

// Makes a directory and promises bytes to it, or neither: a directory that was there before stays.
function createDirectoryOf(id, bytes) {
  const before = pool.stat(VOLUMES, id);
  pool.createDirectory(VOLUMES, id);
  try {
    pool.setQuota(VOLUMES, id, bytes);
  } catch (error) {
    if (!before) pool.removeDirectory(VOLUMES, id);
    throw error;
  }
}

export const identity = {
  getPluginInfo: () => ({ name: "directory-js.wasmount.io", version: "0.1.0", manifest: [], features: ["single-node-multi-writer"] }),
  probe: () => true,
  checkSettings: () => [],
};

export const controller = {
  createVolume({ name, capacity, capabilities, parameters, mutableParameters, contentSource }) {
    check(capabilities, parameters, mutableParameters);
    if (contentSource) fail("invalid-argument", "volumes of this driver start empty: create one without dataSource");
    const id = `directory-${sha256(name)}`;
    const bytes = agree(capacity, get(id));
    createDirectoryOf(id, bytes);
    pool.setPermissions(VOLUMES, id, 0o777, null, null); // pods run as any user
    put(id, bytes, { tag: "absent" });
    return { id, capacityBytes: bytes, context: [], contentSource: null, accessibleTopology: [] };
  },
  deleteVolume(id) {
    if (!ID.test(id)) return;
    pool.removeDirectory(VOLUMES, id);
    state.remove(id, { tag: "any" });
  },
  validateVolumeCapabilities({ id, capabilities, parameters }) {
    require(id);
    const val = refusal(() => check(capabilities, parameters));
    return val ? { tag: "unsupported", val } : { tag: "confirmed" };
  },
};

export const controllerExpand = {
  expandVolume({ id, capacity }) {
    const { bytes: before, revision } = require(id);
    const bytes = withinLimit(capacity, Math.max(before, capacity.requiredBytes ?? 0));
    pool.setQuota(VOLUMES, id, bytes);
    put(id, bytes, { tag: "revision", val: revision });
    return { capacityBytes: bytes, nodeExpansionRequired: false };
  },
};

export const capacity = {
  getCapacity({ capabilities, parameters }) {
    const { availableBytes } = pool.capacity(VOLUMES);
    const bytes = refusal(() => check(capabilities, parameters)) ? 0 : availableBytes;
    return { availableBytes: bytes, maximumVolumeBytes: bytes, minimumVolumeBytes: null };
  },
};

export const nodeStage = {
  nodeStage({ id }) {
    if (!ID.test(id)) fail("not-found", "this driver makes no such ids: nothing has it");
    plan.directory(VOLUMES, id);
  },
};
