"""Serves Keystone at an address: keystone_server.py HOST PORT."""

import sys

from werkzeug.serving import WSGIRequestHandler, run_simple

HOST, PORT = sys.argv[1], int(sys.argv[2])
# Keystone reads the command line too, and knows none of this.
del sys.argv[1:]

from keystone.wsgi.api import application  # noqa: E402

WSGIRequestHandler.protocol_version = "HTTP/1.1"
run_simple(HOST, PORT, application, threaded=True)
