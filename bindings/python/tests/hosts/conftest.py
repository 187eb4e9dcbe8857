# SPDX-License-Identifier: MIT
"""Fixtures: two segments that play hosts, each with a bridge to one redis-server, which hosts.sh has started."""

import os
import socket

import lockshm
import pytest

import lockshm.testing

OPTIONS = {"redis": os.environ["REDIS_URI"], "redis_ttl": 60.0, "redis_policy": "wait", "locks": 64}
FAR = 120.0
"""A time-out that a test never reaches."""


@pytest.fixture(scope="session")
def hosts():
    """Locks of two hosts, whose bridges lead."""
    pair = [lockshm.open(os.environ[host], **OPTIONS) for host in ("HOST_A", "HOST_B")]
    for host in pair:
        with host.exclusive("first", global_=True, timeout=FAR):
            pass
    return pair


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
