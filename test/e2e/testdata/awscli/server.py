"""Runs the aws CLI that is installed, unchanged, for clients of a socket. Every start of the CLI imports about 0.3 s of
Python; this process imports it once, and each command runs in a fork of it.

usage: server.py SOCKET SCRIPT, with SCRIPT the installed CLI's own. Ends when its standard input is closed."""

import functools
import gc
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
import traceback


# The CLI derives the paths of its caches from HOME when it is imported. This path leads to each client's own HOME.
HOME = 900
os.environ["HOME"] = f"/proc/self/fd/{HOME}"

import awscli.clidriver
import botocore.exceptions
import botocore.loaders
import botocore.session


def remember(cls, name):
    """Has a method of cls that reads the CLI's own files read each of them once for all commands."""
    read, answers = getattr(cls, name), {}

    @functools.wraps(read)
    def method(self, arg=None, **named):
        key = (*getattr(self, "search_paths", ()), arg, *named.items())
        if key not in answers:
            answers[key] = read(self, *[arg] if arg else (), **named)
        return answers[key]

    setattr(cls, name, method)


# The services that the scripts ask most.
SERVICES = ("autoscaling", "cloudformation", "ec2", "ecr", "eks", "elbv2", "iam", "kms", "logs", "s3", "sqs", "ssm", "sts")


def read():
    """Reads the models of SERVICES. They are half of what a command costs."""
    remember(botocore.loaders.JSONFileLoader, "load_file")
    remember(botocore.loaders.Loader, "list_available_services")
    loader = awscli.clidriver.create_clidriver().session.get_component("data_loader")
    for service in SERVICES:
        for kind in "service-2", "endpoint-rule-set-1", "paginators-1", "waiters-2":
            try:
                loader.load_service_model(service, kind)
            except botocore.exceptions.DataNotFoundError:
                pass  # not all have paginators and waiters


def imported():
    """Imports what the CLI imports late: its commands, and what a client of a service needs."""
    awscli.clidriver.create_clidriver()
    botocore.session.Session().create_client(
        "eks", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x", endpoint_url="http://127.0.0.1:9"
    )


def receive(conn):
    """Returns the client's folder, arguments and environment, after taking over its standard files."""
    head, fds, _, _ = socket.recv_fds(conn, 8, 3)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    size, data = int.from_bytes(head, "big"), b""
    while len(data) < size:
        data += conn.recv(size - len(data)) or sys.exit("the client is gone")
    fields = [os.fsdecode(f) for f in data.split(b"\0")]
    last = 2 + int(fields[1])
    return fields[0], fields[2:last], dict(f.split("=", 1) for f in fields[last:])


def watch(conn):
    """Ends this process with its client."""
    conn.recv(1)
    os._exit(1)


def run(conn, script):
    folder, args, env = receive(conn)
    os.chdir(folder)
    env.setdefault("AWS_DATA_PATH", os.environ["AWS_DATA_PATH"])  # set by the import of awscli
    os.environ.clear()
    os.environ.update(env)
    if os.path.isdir(env.get("HOME", "")):
        os.dup2(os.open(env["HOME"], os.O_RDONLY), HOME)
    time.tzset()
    threading.Thread(target=watch, args=(conn,), daemon=True).start()
    sys.argv = [script] + args
    try:
        runpy.run_path(script, run_name="__main__")
        return 0
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        print(e.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    return 1


def main(path, script):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    read()
    imported()
    gc.collect()
    gc.freeze()
    gc.disable()  # the commands are short
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([sys.stdin, listener], [], [])
        if sys.stdin in ready:
            return
        conn, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = run(conn, script)
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except OSError:
                pass  # the reader of the output is gone
            conn.send(bytes([status & 255]))
            os._exit(status)
        conn.close()


main(*sys.argv[1:])
