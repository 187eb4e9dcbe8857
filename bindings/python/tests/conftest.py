# SPDX-License-Identifier: MIT
"""Fixtures: a segment for each test, child processes that end with it, a watchdog."""

import faulthandler
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import lockshm.testing

LONG = os.environ.get("LONG") == "1"
WATCHDOG = 1500 if LONG else 150

PRELUDE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below "make check &"
import asyncio, threading, time, lockshm
locks = lockshm.open(sys.argv[1], create=False)
def say(*words):
    print(*words, flush=True)
"""


@pytest.fixture(autouse=True)
def watchdog():
    faulthandler.dump_traceback_later(WATCHDOG, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def locks():
    with lockshm.testing.private() as private:
        yield private


class Child(subprocess.Popen):
    """A Python process with the segment open as ``locks``."""

    def __init__(self, locks, code, *flags):
        program = PRELUDE + textwrap.dedent(code)
        super().__init__(
            [sys.executable, *flags, "-c", program, locks.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self):
        line = self.stdout.readline().strip()
        if not line:
            pytest.fail(f"the child ended: {self.communicate()[1]}")
        return line

    def kill_and_wait(self):
        self.kill()
        self.wait()

    def output(self):
        """Wait for its end."""
        out, err = self.communicate()
        return self.returncode, out, err


@pytest.fixture
def child(locks):
    children = []

    def start(code, *flags):
        children.append(Child(locks, code, *flags))
        return children[-1]

    yield start
    for one in children:
        if one.poll() is None:
            one.send_signal(signal.SIGCONT)
            one.kill()
        one.communicate()


@pytest.fixture
def holder(child):
    """A child that holds a key: start(key, options of exclusive()) returns when it does."""

    def start(key, options="", after="time.sleep(3600)"):
        one = child(f"with locks.exclusive({key!r}, {options}) as hold:\n    say(hold.token)\n    {after}\n")
        one.token = int(one.line())
        return one

    return start


def until(condition):
    """Wait for a condition; the watchdog is the bound."""
    while not condition():
        time.sleep(0.002)


def waiters(locks, key):
    return [request for request in locks.holders(key) if request.state == "waiting"]


def fork(fn):
    """Run fn() in a child made by os.fork(); returns its exit status, 0 if fn() returned."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            fn()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def pytest_terminal_summary(terminalreporter):
    """For unit.sh, which prints it last."""
    path = os.environ.get("LOCKSHM_COUNTS")
    if path:
        n = {word: len(terminalreporter.stats.get(word, [])) for word in ("passed", "failed", "error", "skipped")}
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{n['passed']} passed, {n['failed'] + n['error']} failed, {n['skipped']} skipped\n")
