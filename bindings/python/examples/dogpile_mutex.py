# SPDX-License-Identifier: MIT
"""dogpile.cache with one creator among all processes, on any backend.

    region = make_region().configure(
        "dogpile.cache.dbm", expiration_time=60, arguments={"filename": ...}, wrap=[LockshmMutexes(locks)])

A creator that is killed frees its mutex at once.  While a value is made anew, other processes get the old one.
"""

from dogpile.cache.proxy import ProxyBackend


class Mutex:
    """A hold has an object of its own: dogpile may release it in another thread (async_creation_runner)."""

    def __init__(self, locks, key, timeout):
        self._request = lambda: locks.exclusive(key, timeout=timeout, lease=None)
        self._held = None

    def acquire(self, wait=True):
        lock = self._request()
        granted = lock.acquire() if wait else lock.acquire(blocking=False)
        if granted:
            self._held = lock
        return granted

    def release(self):
        lock, self._held = self._held, None
        lock.release()

    def locked(self):
        return self._request().locked()


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
