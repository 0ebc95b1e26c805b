"""Calls methods without arguments at a socket, and prints what is answered in hexadecimal: a line each. No option is set."""

import sys

import grpc

SECONDS = 30

address, methods = sys.argv[1], sys.argv[2:]
with grpc.insecure_channel(address) as channel:
    for method in methods:
        # Bytes as they are: there is no generated code.
        call = channel.unary_unary(method, lambda message: message, lambda answer: answer)
        print(call(b"", timeout=SECONDS).hex())
