# SPDX-License-Identifier: MIT
"""Fixtures: locks of a private segment, a gate, a directory whose path fits into the address of a unix socket."""

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
    await_true(lambda: unchecked_locks.stat()["locks_busy"] == 0, "no lock is held or awaited")
    lockctl = os.environ.get("LOCKCTL")
    if lockctl:
        subprocess.run([lockctl, "verify", unchecked_locks.name], check=True, stdout=subprocess.DEVNULL)
