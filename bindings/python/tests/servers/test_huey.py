# SPDX-License-Identifier: MIT
"""The example for huey, with real consumers.  huey is in no Debian package: $HUEY_DIR names a checkout of it."""

import contextlib
import importlib
import os
import subprocess
import sys

import pytest
from support import EXAMPLES, await_true, python

HUEY = os.environ.get("HUEY_DIR")
pytestmark = pytest.mark.skipif(not HUEY, reason="HUEY_DIR names no checkout of huey")


@pytest.fixture
def app(directory, gate, locks, monkeypatch):
    """huey_app, as a producer."""
    monkeypatch.setenv("HUEY_FILE", f"{directory}/huey.db")
    monkeypatch.setenv("GATE", gate.path)
    monkeypatch.setattr(sys, "path", [HUEY, str(EXAMPLES), *sys.path])
    yield importlib.import_module("huey_app")
    del sys.modules["huey_app"]


@pytest.fixture
def consumers(app, directory, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{HUEY}:{os.environ.get('PYTHONPATH', '')}")
    with contextlib.ExitStack() as stack:

        def start(name, *options):
            home = f"{directory}/{name}"
            os.mkdir(home)
            consumer = f"{HUEY}/huey/bin/huey_consumer.py"
            options = ["-d", "0.01", "-m", "0.05", *options]
            return stack.enter_context(python(home, consumer, "huey_app.huey", *options))

        yield start


@pytest.mark.parametrize("options", [["-k", "process"], ["-k", "thread"]], ids=["process", "thread"])
def test_a_task_runs_once_at_a_time_and_again_when_its_consumer_was_killed(locks, app, gate, consumers, options):
    servers = [consumers(name, "-w", "1", *options) for name in "ab"]
    app.nightly(1)
    running = gate.visit()
    running.await_event("runs")
    assert app.huey.is_locked("nightly")
    refused = app.nightly(2)
    with pytest.raises(Exception, match=f"held exclusive by pid {running.pid}"):
        await_true(lambda: refused.get() and False, "the result is an error")
    (victim,) = [server for server in servers if os.getpgid(running.pid) == server.pid]
    victim.kill()
    app.nightly(3)  # without flush_locks()
    following = gate.visit()
    assert following.await_event("runs")["number"] == 3
    following.go()
    await_true(lambda: not locks.locked("huey:test:nightly"), "the task ends")


def test_two_workers_of_one_consumer_do_not_share_the_lock(locks, app, gate, consumers):
    consumers("a", "-k", "thread", "-w", "2")
    first, second = app.nightly(1), app.nightly(2)
    running = gate.visit()
    number = running.await_event("runs")["number"]
    refused = second if number == 1 else first
    with pytest.raises(Exception, match="held exclusive"):
        await_true(lambda: refused.get() and False, "the result is an error")
    running.go()
    assert (first if number == 1 else second).get(blocking=True) == number


THEIR_TESTS = """
import os, unittest
import lockshm
from huey import MemoryHuey
from huey.tests.test_api import TestTaskLocking
from huey_lock import LockshmLocks

class Huey(LockshmLocks, MemoryHuey):
    pass

class Test(TestTaskLocking):
    def get_huey(self):
        return Huey(utc=False, locks=lockshm.open(os.environ["LOCKS"]))

del TestTaskLocking
unittest.main()
"""


def test_their_own_test_of_locks(locks, directory, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{HUEY}:{EXAMPLES}:{os.environ.get('PYTHONPATH', '')}")
    done = subprocess.run([sys.executable, "-c", THEIR_TESTS], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Ran 1 test" in done.stderr, done.stderr
