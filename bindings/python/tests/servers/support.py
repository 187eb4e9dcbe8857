# SPDX-License-Identifier: MIT
"""Servers under test: started on a unix socket in a private directory, ended with all their children."""

import contextlib
import ctypes
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from gate import WATCHDOG

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def await_true(condition, what):
    """Repeat until the condition is true; fails at the watchdog only."""
    end = time.monotonic() + WATCHDOG
    value = condition()
    while not value:
        assert time.monotonic() < end, f"not within {WATCHDOG} s: {what}"
        time.sleep(0.01)
        value = condition()
    return value


def await_death(pid):
    await_true(lambda: not is_alive(pid), f"the end of process {pid}")


def await_stopped(pid):
    """Every thread of it is stopped: the signal arrives at one after the other."""

    def stopped():
        states = [pathlib.Path(task, "stat").read_text().rpartition(")")[2].split()[0] for task in tasks()]
        return all(state == "T" for state in states)

    def tasks():
        return pathlib.Path(f"/proc/{pid}/task").iterdir()

    await_true(stopped, f"process {pid} stopped")


def is_alive(pid):
    return os.path.exists(f"/proc/{pid}")


def need(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    return program


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=WATCHDOG)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WATCHDOG)
        self.sock.connect(self._path)


class Reply:
    """An HTTP request in a thread of its own."""

    def __init__(self, path, url):
        self._result = None
        self._thread = threading.Thread(target=self._run, args=(path, url), daemon=True)
        self._thread.start()

    def _run(self, path, url):
        try:
            connection = _UnixConnection(path)
            connection.request("GET", url)
            response = connection.getresponse()
            self._result = response.status, response.read().decode()
            connection.close()
        except (OSError, http.client.HTTPException) as error:
            self._result = 0, repr(error)

    def result(self):
        """(status, text); status 0 = the server ended the connection without a reply."""
        self._thread.join(WATCHDOG)
        assert self._result, "no reply"
        return self._result


class Server:
    """A process with children that serves HTTP on a unix socket, its output in a file."""

    def __init__(self, directory, command, **environ):
        self.socket = f"{directory}/http"
        self.log = pathlib.Path(directory, "log")
        self.directory = directory
        paths = [str(HERE), str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, "PYTHONPATH": ":".join(paths), "PYTHONUNBUFFERED": "1", **environ}
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=directory,
                start_new_session=True, preexec_fn=_die_with_parent,
            )
        self.pid = self._process.pid

    def get(self, url):
        """Starts a request: a Reply."""
        return Reply(self.socket, url)

    def await_serving(self, url="/pid"):
        def serves():
            assert self._process.poll() is None, f"the server has ended: {self.output()}"
            return os.path.exists(self.socket) and self.get(url).result()[0]

        await_true(serves, "the server replies")

    def output(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def lines(self, prefix):
        """What follows the prefix in the lines that begin with it; a line that is being written is none yet."""
        whole = self.output().split("\n")[:-1]
        return [line[len(prefix) :] for line in whole if line.startswith(prefix)]

    def terminate(self):
        """Ends it as its user does; returns its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(WATCHDOG)

    def kill(self):
        """Ends it and its children by force: gunicorn loses a SIGTERM that arrives while a worker starts."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def gunicorn(directory, app, *options, serving="/pid", **environ):
    """``serving``: a URL that is tried until the server replies; None = it is not awaited."""
    command = [sys.executable, "-m", "gunicorn", "--bind", f"unix:{directory}/http", "--workers", "2", *options, app]
    yield from _serve(directory, command, serving, environ)


@contextlib.contextmanager
def uwsgi(directory, app, *options, threads=True, serving="/pid", **environ):
    # --die-on-term: SIGTERM ends it instead of a restart.
    command = [need("uwsgi"), "--plugin", "python3", "--http-socket", f"{directory}/http", "--master", "--die-on-term",
               "--processes", "2", "--module", app, *(["--enable-threads"] if threads else []), *options]  # fmt: skip
    yield from _serve(directory, command, serving, environ)


@contextlib.contextmanager
def python(directory, *arguments, **environ):
    yield from _serve(directory, [sys.executable, *arguments], None, environ)


def _serve(directory, command, serving, environ):
    server = Server(directory, command, **environ)
    try:
        if serving:
            server.await_serving(serving)
        yield server
    except BaseException:
        print(server.output())
        raise
    finally:
        server.kill()
