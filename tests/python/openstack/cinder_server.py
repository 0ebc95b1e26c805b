"""Serves Cinder: API, scheduler, the volumes of each backend and backups in one process, since their messages have no broker."""

from cinder import monkey_patch

monkey_patch.patch()  # Before anything else is imported.

import sys  # noqa: E402

import os_brick  # noqa: E402
from os_brick import privileged  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_db.sqlalchemy import engines  # noqa: E402
from oslo_log import log  # noqa: E402
from oslo_service import service as launchers  # noqa: E402

from cinder import coordination, objects, rpc, service, version  # noqa: E402
from cinder.cmd import volume  # noqa: E402
from cinder.common import config  # noqa: E402
from cinder.objects import cleanable  # noqa: E402
from cinder.volume import volume_utils  # noqa: E402

CONF = cfg.CONF
IDS_BY_HOST = {}


def tell_services_apart():
    """`Service.service_id` belongs to the class, so of several services in a process only the last one would report that it is up, and after a crash
    clean up what was under way."""
    report = service.Service.report_state
    set_worker = cleanable.CinderCleanableObject.set_worker

    def report_own(self):
        service.Service.service_id = self.origin_service_id
        report(self)

    def set_own_worker(self):
        # The scheduler's work has no host yet.
        host = volume_utils.extract_host(self.host) if self.host else None
        service.Service.service_id = IDS_BY_HOST.get(host, service.Service.service_id)
        set_worker(self)

    service.Service.report_state = report_own
    cleanable.CinderCleanableObject.set_worker = set_own_worker


def services():
    yield service.Service.create(binary="cinder-scheduler")
    for backend in CONF.enabled_backends:
        CONF.register_opt(volume.host_opt, group=backend)
        of_volumes = service.Service.create(
            host=f"{CONF.host}@{backend}",
            service_name=backend,
            binary="cinder-volume",
            coordination=True,
        )
        IDS_BY_HOST[of_volumes.host] = of_volumes.origin_service_id
        yield of_volumes
    yield service.Service.create(binary="cinder-backup", service_name="backup", coordination=True)
    yield service.WSGIService("osapi_volume")


# oslo.db opens a file of SQLite anew for each transaction, which is an eighth of what Cinder computes.
engines.pool.NullPool = engines.pool.QueuePool
tell_services_apart()
objects.register_all()
CONF(sys.argv[1:], project="cinder", version=version.version_string())
config.set_middleware_defaults()
log.setup(CONF, "cinder")
os_brick.setup(CONF)
# This process is root's where volumes are attached: it needs no other one with more rights.
privileged.default.set_client_mode(False)
coordination.COORDINATOR.start()
rpc.init(CONF)
launcher = launchers.ServiceLauncher(CONF)
for each in services():
    launcher.launch_service(each)
launcher.wait()
