"""Creates the databases of Nova and Placement, a cell, and a flavor: prepare_nova.py NOVA_CONF."""

import shutil
import sys

from nova import monkey_patch

monkey_patch.patch(backend="threading")  # Before anything else is imported.

import placement.conf  # noqa: E402
from nova import config, context, objects  # noqa: E402
from nova.conf import CONF  # noqa: E402
from nova.db import migration  # noqa: E402
from oslo_config import cfg  # noqa: E402
from placement import db_api  # noqa: E402
from placement.db.sqlalchemy import migration as placement_migration  # noqa: E402

NOVA_CONF = sys.argv[1]
CELL = "1d3f5c0e-6f3e-4c5e-9a39-5a6c3f0f8a2b"
# A test copies the databases: a cell's one is named from the path of the main one.
SAME = "{scheme}:////{path}"
SUFFIX = ".cell0"


def create_placement():
    options = cfg.ConfigOpts()
    placement.conf.register_opts(options)
    options([], project="placement", default_config_files=[NOVA_CONF])
    db_api.configure(options)
    placement_migration.upgrade("head")


def create_nova():
    for database in ("api", "main"):
        migration.db_sync(database=database)
    path = CONF.database.connection.removeprefix("sqlite:///")
    shutil.copy(path, path + SUFFIX)
    admin = context.get_admin_context()
    cell0 = objects.CellMapping.CELL0_UUID
    for cell, name, url in ((cell0, "cell0", SAME + SUFFIX), (CELL, "lab", SAME)):
        mapping = {"uuid": cell, "name": name, "database_connection": url, "transport_url": CONF.transport_url}
        objects.CellMapping(admin, **mapping).create()
    # The root disk is an ephemeral one, as no image is there to make one of.
    sizes = {"memory_mb": 1, "vcpus": 1, "root_gb": 0, "ephemeral_gb": 1, "swap": 0}
    rest = {"rxtx_factor": 1.0, "vcpu_weight": 0, "is_public": True, "disabled": False}
    objects.Flavor(admin, name="node", flavorid="node", **sizes, **rest).create()


config.parse_args(["nova", "--config-file", NOVA_CONF])
objects.register_all()
create_nova()
create_placement()
