# SPDX-License-Identifier: MIT
"""Fixtures: two segments that play hosts, each with a bridge to one redis-server, which hosts.sh has started."""

import os
import socket
import time

import lockshm
import pytest

import lockshm.testing

OPTIONS = {"redis": os.environ["REDIS_URI"], "redis_ttl": 60.0, "redis_policy": "wait", "keys": 64, "global_keys": ["seg:", "other:"]}
FAR = 120.0
"""A time-out that a test never reaches."""


@pytest.fixture(scope="session")
def hosts():
    """Locks of two hosts, whose bridges lead; the second one has the name of the first."""
    pair = [lockshm.open(os.environ[host], **OPTIONS) for host in ("HOST_A", "HOST_B")]
    for host in pair:
        with host.exclusive("first", global_=True, timeout=FAR):
            pass
    first, second = pair
    with first.exclusive("first", global_=True, timeout=FAR):
        end = time.monotonic() + FAR
        while first.name not in refusal(second):
            assert time.monotonic() < end, "the bridge of the second host does not read the name of the first"
            time.sleep(0.05)
    return pair


def refusal(locks):
    with pytest.raises(lockshm.Busy) as refused:
        locks.exclusive("first", global_=True, timeout=0).acquire()
    return str(refused.value)


@pytest.fixture(scope="session")
def bare():
    """Locks of a host without a bridge; the first request takes two seconds to find that out."""
    with lockshm.testing.private(redis=os.environ["REDIS_URI"]) as locks:
        yield locks


@pytest.fixture
def redis():
    """Sends a command to the server, and returns the first line of its reply."""

    def send(*words):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.environ["REDIS_SOCKET"])
            connection.sendall(" ".join(words).encode() + b"\r\n")
            return connection.makefile("rb").readline().decode().strip()

    return send
