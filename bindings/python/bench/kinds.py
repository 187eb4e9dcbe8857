# SPDX-License-Identifier: MIT
"""The locks that are compared, each with the same four calls."""

import asyncio
import concurrent.futures
import multiprocessing
import threading

import lockshm

LEASE = 1.0
"""Of redis-py's lock: how long it outlives its holder."""


class Kind:
    """One lock, as one process uses it.  Made before a fork and used after it."""

    name = ""
    between_processes = True
    pairs = 20000
    """Free pairs in one round."""
    has_plain = False
    """It has another lock, ``plain``, whose lease is not renewed."""
    tasks = 0
    """Hand-overs between tasks of one event loop in one round."""

    def acquire(self):
        raise NotImplementedError

    def release(self):
        raise NotImplementedError

    def acquire_within(self, seconds):
        """False if it is not granted in time."""
        raise NotImplementedError

    async def acquire_async(self):
        """By default in a thread, since the lock has no other way."""
        await asyncio.get_running_loop().run_in_executor(self._executor(), self.acquire)

    async def release_async(self):
        await asyncio.get_running_loop().run_in_executor(self._executor(), self.release)

    def _executor(self):
        if not hasattr(self, "_threads"):
            self._threads = concurrent.futures.ThreadPoolExecutor(1)
        return self._threads


class Lockshm(Kind):
    name = "lockshm"
    has_plain = True
    tasks = 200

    def __init__(self, bench):
        locks = lockshm.open(bench.segment)
        self.lock = locks.exclusive("bench", timeout=60)
        self.plain = locks.exclusive("bench", renew=False)
        self.acquire = self.lock.acquire
        self.release = self.lock.release

    def acquire_within(self, seconds):
        return self.lock.acquire(timeout=seconds)

    async def acquire_async(self):
        await self.lock.acquire_async()

    async def release_async(self):
        self.lock.release()


class Filelock(Kind):
    name = "filelock"
    pairs = 2000

    def __init__(self, bench):
        import filelock

        self._timeout = filelock.Timeout
        self.lock = filelock.FileLock(f"{bench.directory}/bench.lock")
        self.acquire = self.lock.acquire
        self.release = self.lock.release

    def acquire_within(self, seconds):
        try:
            self.lock.acquire(timeout=seconds)
        except self._timeout:
            return False
        return True


class Redis(Kind):
    name = "redis-py"
    pairs = 500
    tasks = 10

    def __init__(self, bench):
        self._path = bench.redis_socket()
        self._lock = None
        self._async_lock = None

    def _ready(self):
        """Connected in the process that uses it."""
        import redis

        if self._lock is None:
            self._lock = redis.Redis(unix_socket_path=self._path).lock("bench", timeout=LEASE)
        return self._lock

    @property
    def lock(self):
        return self._ready()

    def acquire(self):
        self._ready().acquire()

    def release(self):
        self._ready().release()

    def acquire_within(self, seconds):
        return self._ready().acquire(blocking_timeout=seconds)

    async def acquire_async(self):
        import redis.asyncio

        if self._async_lock is None:
            self._async_lock = redis.asyncio.Redis(unix_socket_path=self._path).lock("bench", timeout=LEASE)
        await self._async_lock.acquire()

    async def release_async(self):
        await self._async_lock.release()


class Multiprocessing(Kind):
    name = "multiprocessing.Lock"

    def __init__(self, bench):
        self.lock = multiprocessing.Lock()
        self.acquire = self.lock.acquire
        self.release = self.lock.release

    def acquire_within(self, seconds):
        return self.lock.acquire(timeout=seconds)


class Threading(Kind):
    """asyncio.Lock where tasks wait."""

    name = "threading.Lock"
    between_processes = False
    tasks = 200

    def __init__(self, bench):
        self.lock = threading.Lock()
        self.acquire = self.lock.acquire
        self.release = self.lock.release
        self._async_lock = asyncio.Lock()

    async def acquire_async(self):
        await self._async_lock.acquire()

    async def release_async(self):
        self._async_lock.release()


KINDS = [Lockshm, Filelock, Redis, Multiprocessing, Threading]
