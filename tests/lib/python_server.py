# SPDX-License-Identifier: MIT
"""python_server.py SOCKET: a Python process with numpy imported that forks for every script of python_client.py.
A test then waits about 30 ms for a script instead of 300 ms of two cores. Ends when its standard input is closed."""
import array
import json
import os
import runpy
import select
import signal
import socket
import sys

import numpy  # noqa: F401 (imported once, inherited by all forks)


def carry_out(request, descriptors):
    """In the child: runs the script as Python would from the command line. Does not return."""
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["argv"][:]
    sys.path[0:1] = ["", *filter(None, request["environment"].get("PYTHONPATH", "").split(":"))]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    code = 0
    try:
        if sys.argv[0] == "-c":
            text = sys.argv.pop(1)
            exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
        elif sys.argv[0] == "-":
            exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 120
    os._exit(code & 255)


def serve(connection):
    """Serves one connection in a process of its own. Descriptors arrive with the length of the request; the exit code
    is sent back as a line."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, ancillary, _, _ = connection.recvmsg(16, socket.CMSG_SPACE(3 * 4))
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read(int(length)))
    child = os.fork()
    if child == 0:
        connection.close()
        carry_out(request, descriptors)
    for descriptor in (0, 1, 2, *descriptors):
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen(64)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    ready, _, _ = select.select([0, listening], [], [])
    if 0 in ready:
        break
    accepted, _ = listening.accept()
    if os.fork() == 0:
        listening.close()
        serve(accepted)
        os._exit(0)
    accepted.close()
