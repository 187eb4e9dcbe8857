# SPDX-License-Identifier: MIT
"""dogpile.cache with one creator among all processes, on any backend.

    region = make_region().configure(
        "dogpile.cache.dbm", expiration_time=60, arguments={"filename": ...}, wrap=[LockshmMutexes(locks)])

A creator that is killed frees its mutex at once.  While a value is made anew, other processes get the old one.
"""

from dogpile.cache.proxy import ProxyBackend


class Mutex:
    """dogpile may release it in another thread than acquired it (async_creation_runner)."""

    def __init__(self, locks, key, timeout):
        self._lock = locks.exclusive(key, timeout=timeout, lease=None)

    def acquire(self, wait=True):
        return self._lock.acquire() if wait else self._lock.acquire(blocking=False)

    def release(self):
        self._lock.release()

    def locked(self):
        return self._lock.locked()


class LockshmMutexes(ProxyBackend):
    """Takes the mutex of a key from ``locks``; everything else goes to the backend.

    timeout: longest wait for another creator, in seconds, then get_or_create() raises lockshm.Timeout.
    """

    def __init__(self, locks, timeout=30.0):
        super().__init__()
        self.locks = locks
        self.timeout = timeout

    def get_mutex(self, key):
        return Mutex(self.locks, f"dogpile:{key}", self.timeout)
