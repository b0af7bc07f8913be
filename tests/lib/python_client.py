# SPDX-License-Identifier: MIT
"""python_client.py SOCKET ARGUMENTS...: runs `python3 ARGUMENTS...` in tests/lib/python_server.py."""
import array
import json
import os
import socket
import sys

text = json.dumps({"argv": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendmsg([b"%16d" % len(text)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
connection.sendall(text)
code = int(connection.makefile().readline() or 70)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
