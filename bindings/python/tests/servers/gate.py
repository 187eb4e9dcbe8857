# SPDX-License-Identifier: MIT
"""Where a process under test stops until the test lets it go on: nothing here rests on time.

The test listens on a unix socket; the process connects, says where it is, and waits for the test's answer.
"""

import json
import os
import select
import socket

WATCHDOG = float(os.environ.get("WATCHDOG", "100"))
"""Seconds after which a test that waits for something fails."""


class Visit:
    """The connection of one place in a process, at either end."""

    def __init__(self, connection):
        self._connection = connection
        self._lines = connection.makefile("r", encoding="utf-8")
        self.pid = 0

    def say(self, event, **facts):
        self._connection.sendall((json.dumps({"event": event, "pid": os.getpid(), **facts}) + "\n").encode())

    def read(self):
        """The next message, None at the end: the process is gone or has hung up."""
        try:
            line = self._lines.readline()
        except ConnectionResetError:
            return None
        message = json.loads(line) if line else None
        self.pid = message["pid"] if message else self.pid
        return message

    def await_event(self, event):
        message = self.read()
        assert message and message["event"] == event, f"{event!r} expected, got {message}"
        return message

    def go(self):
        """Lets the other end's wait() return."""
        self.say("go")

    def wait(self):
        self.await_event("go")

    def close(self):
        self._lines.close()
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(path=None):
    """In the process under test; the path is $GATE."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path or os.environ["GATE"])
    return Visit(connection)


class Gate:
    """In the test."""

    def __init__(self, path):
        self.path = path
        self._visits = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._listener.settimeout(WATCHDOG)

    def visit(self):
        """The next connection."""
        connection, _ = self._listener.accept()
        connection.settimeout(WATCHDOG)
        self._visits.append(Visit(connection))
        return self._visits[-1]

    def has_no_client(self):
        """No process has connected since the last visit()."""
        return not select.select([self._listener], [], [], 0)[0]

    def close(self):
        """Ends all connections: what waits at the other end fails."""
        self._listener.close()
        for visit in self._visits:
            visit.close()
