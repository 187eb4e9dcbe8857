# SPDX-License-Identifier: MIT
"""huey's lock_task() with a lock that ends with the worker that has it.

    class Huey(LockshmLocks, SqliteHuey): ...
    huey = Huey(filename=..., locks=lockshm.open("shop"))

huey's own lock is a row in its storage: it stays when the consumer is killed, until flush_locks().  This one is free
at once, and there is nothing to flush.  All consumers have to run on one host.
"""

import contextlib
import functools

import lockshm
from huey.exceptions import TaskLockedException


class TaskLock:
    """As huey's: a context manager and a decorator, which raises TaskLockedException instead of waiting."""

    def __init__(self, locks, huey_name, name):
        self._name = name
        self._lock = locks.exclusive(f"huey:{huey_name}:{name}", timeout=0, lease=None, tag="huey")

    def __call__(self, fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)

        return inner

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, kind, value, traceback):
        self.release()

    def acquire(self):
        try:
            return self._lock.acquire()
        except lockshm.Busy as error:  # the message names the process that has it
            raise TaskLockedException(f"unable to acquire lock {self._name}: {error}") from error

    def release(self):
        with contextlib.suppress(lockshm.NotOwned):
            self._lock.release()

    clear = release

    def is_locked(self):
        return self._lock.locked()

    locked = is_locked


class LockshmLocks:
    """Mixed in before a Huey class."""

    def __init__(self, *args, locks, **kwargs):
        super().__init__(*args, **kwargs)
        self.locks = locks

    def lock_task(self, lock_name):
        return TaskLock(self.locks, self.name, lock_name)

    def is_locked(self, lock_name):
        return self.lock_task(lock_name).is_locked()
