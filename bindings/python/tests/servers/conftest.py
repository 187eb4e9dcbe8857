# SPDX-License-Identifier: MIT
"""Fixtures: locks of a private segment, a gate, a directory whose path fits into the address of a unix socket."""

import importlib.util
import os
import shutil
import subprocess
import tempfile

import lockshm.testing
import pytest
from gate import Gate
from support import await_true


@pytest.fixture
def directory():
    path = tempfile.mkdtemp(prefix="ls.")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def gate(directory):
    gate = Gate(f"{directory}/gate")
    yield gate
    gate.close()


@pytest.fixture
def unchecked_locks(monkeypatch):
    """In a private segment, which $LOCKS names for the processes of the test."""
    with lockshm.testing.private() as locks:
        monkeypatch.setenv("LOCKS", locks.name)
        yield locks


@pytest.fixture
def locks(unchecked_locks):
    """At the end no lock is held, awaited or cooling, and the segment is sound."""
    yield unchecked_locks
    await_true(lambda: unchecked_locks.stat()["keys_busy"] == 0, "no lock is held or awaited")
    lockctl = os.environ.get("LOCKCTL")
    if lockctl:
        subprocess.run([lockctl, "verify", unchecked_locks.name], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def redis_socket():
    if not importlib.util.find_spec("redis") or not shutil.which("redis-server"):
        pytest.skip("redis-py or redis-server is not installed")
    with tempfile.TemporaryDirectory(prefix="ls.") as home:
        path = f"{home}/redis"
        command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", home]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        await_true(lambda: os.path.exists(path), "Redis listens")
        yield path
        server.kill()
        server.wait()
