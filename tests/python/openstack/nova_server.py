"""Serves Nova at an address, nova_server.py HOST: API, conductor, scheduler and compute in one process, since their messages have no broker; and, at
another port, Placement."""

import json
import os
import sys
import threading

HOST = sys.argv[1]
# Nova reads the command line too, and knows none of this.
del sys.argv[1:]
# The customary ports.
NOVA_PORT, PLACEMENT_PORT = 8774, 8778
# One thread of the kernel, as Cinder has: of several that write at once, SQLite refuses one.
os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "no"

from nova.wsgi.osapi_compute import application  # noqa: E402 (patches threads, and reads the configuration)

import os_brick  # noqa: E402
import os_vif  # noqa: E402
import placement.conf  # noqa: E402
import placement.db_api  # noqa: E402
import placement.deploy  # noqa: E402
from nova import context, service  # noqa: E402
from nova.compute import rpcapi as compute  # noqa: E402
from nova.conductor import rpcapi as conductor  # noqa: E402
from nova.conf import CONF  # noqa: E402
from nova.objects import host_mapping  # noqa: E402
from nova.scheduler import rpcapi as scheduler  # noqa: E402
from oslo_config import cfg  # noqa: E402
from werkzeug.middleware.dispatcher import DispatcherMiddleware  # noqa: E402
from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: E402
from werkzeug.wrappers import Response  # noqa: E402

WSGIRequestHandler.protocol_version = "HTTP/1.1"


def load_placement():
    config = cfg.ConfigOpts()
    placement.conf.register_opts(config)
    config([], project="placement", default_config_files=CONF.default_config_files)
    placement.db_api.configure(config)
    return placement.deploy.loadapp(config)


def no_networks(environ, start_response):
    """In the place of Neutron, which Nova asks for ports of each instance: there are none."""
    kind = os.path.basename(environ["PATH_INFO"])
    return Response(json.dumps({kind: []}), mimetype="application/json")(environ, start_response)


def start_services():
    os_brick.setup(CONF)
    os_vif.initialize()
    started = [
        service.Service.create(binary="nova-conductor", topic=conductor.RPC_TOPIC),
        service.Service.create(binary="nova-scheduler", topic=scheduler.RPC_TOPIC),
        service.Service.create(binary="nova-compute", topic=compute.RPC_TOPIC, topic_alt=compute.RPC_TOPIC_ALT),
    ]
    for each in started:
        each.start()
    host_mapping.discover_hosts(context.get_admin_context())
    return started


others = DispatcherMiddleware(load_placement(), {"/network": no_networks})
threading.Thread(target=make_server(HOST, PLACEMENT_PORT, others, threaded=True).serve_forever, daemon=True).start()
services = start_services()
make_server(HOST, NOVA_PORT, application, threaded=True).serve_forever()
