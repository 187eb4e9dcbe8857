# SPDX-License-Identifier: MIT
"""The lock of redis-py: ``from lockshm.compat.redis import Redis``, then ``Redis("shop").lock("report", timeout=10)``.

As there ``timeout`` is the lease, which is not renewed, and ``blocking_timeout`` the longest wait; ``sleep`` has no
effect, since nothing polls.  Without a timeout the lock lives as long as the process, and not longer.  What differs is in
MIGRATING.md.
"""

from __future__ import annotations

import importlib
import threading
from types import SimpleNamespace, TracebackType
from typing import Any, Optional, Union

import lockshm

__all__ = ["Lock", "LockError", "LockNotOwnedError", "Redis"]


def _base(name: str) -> Any:
    """redis-py's exception of that name, so that its users' except clauses still match, if it is installed."""
    try:
        return getattr(importlib.import_module("redis.exceptions"), name)
    except ImportError:
        return ValueError


class LockError(_base("LockError")):  # type: ignore[misc]
    """Base of the errors here."""


class LockNotOwnedError(LockError, _base("LockNotOwnedError")):  # type: ignore[misc]
    """The lock was taken away: its lease had ended."""


class Redis:
    """Where a program has a client: lock() is all it can do."""

    def __init__(self, locks: Union[lockshm.Locks, str]) -> None:
        self.locks = lockshm.open(locks) if isinstance(locks, str) else locks

    def lock(self, name: Union[str, bytes], timeout: Optional[float] = None, *args: Any, **kwargs: Any) -> Lock:
        kwargs.pop("lock_class", None)
        return Lock(self, name, timeout, *args, **kwargs)


class Lock:
    """As redis.lock.Lock: not re-entrant; with thread_local only the thread that acquired it can release it."""

    def __init__(
        self,
        redis: Union[Redis, lockshm.Locks],
        name: Union[str, bytes],
        timeout: Optional[float] = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[float] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        locks = redis.locks if isinstance(redis, Redis) else redis
        if not isinstance(locks, lockshm.Locks):
            raise TypeError(f"the first argument is {redis!r}, must be a Redis of this module, or lockshm.Locks")
        self.locks = locks
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = thread_local
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if thread_local else SimpleNamespace()
        self.local.hold = None
        self.local.token = None
        self._request()

    def _request(self) -> lockshm.Lock:
        """A new lock object for each acquire: the same one would count up."""
        if self.timeout is None:
            return self.locks.exclusive(self.name)
        return self.locks.exclusive(self.name, lease=self.timeout, renew=False)

    def _hold(self, verb: str) -> lockshm.Lock:
        hold: Optional[lockshm.Lock] = getattr(self.local, "hold", None)
        if hold is None:
            raise LockError(f"{self.name!r}: cannot {verb} a lock that is not locked")
        return hold

    def acquire(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """True, or False if it is not granted in blocking_timeout seconds."""
        if token is not None:
            raise LockError("a token cannot be given: lockshm makes tokens, which rise; see Lock.token")
        blocking = self.blocking if blocking is None else blocking
        bound = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        hold = self._request()
        if not hold.acquire(timeout=bound if blocking else 0):
            return False
        self.local.hold = hold
        self.local.token = str(hold.token).encode()
        return True

    def __enter__(self) -> Lock:
        if not self.acquire():
            raise LockError(f"{self.name!r}: not acquired within the time specified")
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            lockshm._report.log().warning("%r: not held at its release", self.name)

    def release(self) -> None:
        hold = self._hold("release")
        self.local.hold = None
        self.local.token = None
        try:
            hold.release()
        except (lockshm.Lost, lockshm.NotOwned) as error:
            raise LockNotOwnedError(str(error)) from error

    def locked(self) -> bool:
        """True if a process of this host holds it."""
        return self.locks.locked(self.name)

    def owned(self) -> bool:
        """True if it is held through this object (and thread), and was not taken away."""
        hold: Optional[lockshm.Lock] = getattr(self.local, "hold", None)
        return hold is not None and hold.held

    @property
    def token(self) -> int:
        """Fencing token of the hold; a number here."""
        return self._hold("read the token of").token

    def _lease(self, verb: str) -> lockshm.Lock:
        hold = self._hold(verb)
        if self.timeout is None:
            raise LockError(f"{self.name!r}: cannot {verb} a lock with no timeout")
        return hold

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        hold = self._lease("extend")
        try:
            hold.renew(additional_time) if replace_ttl else hold.extend(additional_time)
        except (lockshm.Lost, lockshm.NotOwned) as error:
            raise LockNotOwnedError(str(error)) from error
        return True

    def reacquire(self) -> bool:
        """Set the lease to its full time again."""
        hold = self._lease("reacquire")
        try:
            hold.renew()
        except (lockshm.Lost, lockshm.NotOwned) as error:
            raise LockNotOwnedError(str(error)) from error
        return True
