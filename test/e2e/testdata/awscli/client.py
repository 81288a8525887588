"""The aws CLI as the scripts start it: hands its arguments, environment and standard files to server.py, which runs the
installed CLI. In namespaces other than the server's (a pod's view of its files) it starts the installed CLI itself."""

import os
import socket
import sys

SOCKET, SCRIPT, NAMESPACES = @CONFIG@

if [os.readlink("/proc/self/ns/" + n) for n in ("mnt", "net", "user")] != NAMESPACES:
    os.execv(SCRIPT, [SCRIPT] + sys.argv[1:])
args = [os.fsencode(a) for a in sys.argv[1:]]
request = b"\0".join([os.fsencode(os.getcwd()), b"%d" % len(args)] + args + [k + b"=" + v for k, v in os.environb.items()])
server = socket.socket(socket.AF_UNIX)
server.connect(SOCKET)
socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
server.sendall(request)
status = server.recv(1)
if not status:
    sys.exit("aws: the server of the installed CLI ended without an answer")
os._exit(status[0])
