"""Creates the volume types of Cinder's tests in its database."""

import os

from cinder import context, objects
from cinder.volume import volume_types
from oslo_config import cfg

TYPES = {"shared": {"multiattach": "<is> True"}, "absent": {"volume_backend_name": "there-is-none"}}

objects.register_all()
cfg.CONF([], project="cinder", default_config_files=[f"{os.path.dirname(os.path.abspath(__file__))}/cinder.conf"])
for name, specs in TYPES.items():
    volume_types.create(context.get_admin_context(), name, specs)
