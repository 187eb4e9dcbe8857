# SPDX-License-Identifier: MIT
"""A plugin of pytest: the lock of redis-py is the drop-in, for redis-py's own tests of it.

They look at a lock by commands of Redis, which the client of this plugin understands for the names of locks.
"""

import math
import os
import sys
import types

import pytest
import redis.client
import redis.lock

import lockshm
from lockshm.compat import redis as ours


class Client(ours.Redis):
    """get, ttl, pttl: of the lock of that name; pexpire, set: as another program would take it away."""

    def __init__(self, decode_responses=False):
        super().__init__(os.environ["LOCKS"])
        self.decode_responses = decode_responses
        self.others = []

    def _entry(self, name):
        entry = ours._entries.get(ours._Key(self.locks.name, name.encode()))
        return entry if entry and entry.is_live() else None

    def get(self, name):
        entry = self._entry(name)
        return entry and (entry.token.decode() if self.decode_responses else entry.token)

    def pttl(self, name):
        """The library rounds the end of a lease up, by less than 20 ms."""
        left = self._entry(name).hold.remaining
        return -1 if left == math.inf else int((left - 0.02) * 1000)

    def ttl(self, name):
        return self.pttl(name) if self.pttl(name) < 0 else math.ceil(self.pttl(name) / 1000)

    def pexpire(self, name, milliseconds):
        self._entry(name).hold.renew(milliseconds / 1000)
        return True

    def set(self, name, value):
        """Another program has the key now."""
        entry = self._entry(name)
        if entry:
            entry.hold.renew(0.001)
        other = self.locks.exclusive(name, timeout=None, lease=None)
        other.acquire()
        self.others.append(other)

    def close(self):
        for other in self.others:
            other.release()
        for entry in list(ours._entries.values()):
            entry.end()
        ours._entries.clear()


def _get_client(kind, request, decode_responses=False):
    client = Client(decode_responses)
    request.addfinalizer(client.close)
    return client


redis.lock.Lock = ours.Lock
sys.modules["originals.conftest"] = types.SimpleNamespace(_get_client=_get_client)


@pytest.fixture
def r(request):
    return _get_client(None, request)
