# SPDX-License-Identifier: MIT
"""The lock of redis-py: ``from lockshm.compat.redis import Redis``, then ``Redis("shop").lock("report", timeout=10)``.

As there ``timeout`` is the lease, which is not renewed, and ``blocking_timeout`` the longest wait; a lock is its name and
a token, and does not end with the object that took it.  Without a timeout it lives as long as the process, and not
longer.  Nothing polls: ``sleep`` only sets how long before blocking_timeout the wait ends.  What differs is in MIGRATING.md.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import math
import os
import sys
import threading
import warnings
from collections import deque
from types import SimpleNamespace, TracebackType
from typing import Any, Callable, NamedTuple, Optional, Union

import lockshm

class RedisError(Exception):
    pass


class ResponseError(RedisError):
    """What a Redis server refuses, as a timeout below a millisecond."""


class DataError(RedisError):
    """A name or token that is neither text, bytes nor a number."""


class LockError(RedisError, ValueError):
    """Base of the errors of locks."""


class LockNotOwnedError(LockError):
    """The lock was taken away, or its timeout had come."""


_ERRORS = ["DataError", "LockError", "LockNotOwnedError", "RedisError", "ResponseError"]
with contextlib.suppress(ImportError):  # their own, so that except clauses of redis-py's users still match
    _theirs = importlib.import_module("redis.exceptions")
    globals().update((name, getattr(_theirs, name)) for name in _ERRORS)

__all__ = [*_ERRORS, "Lock", "Redis"]

_TEN_YEARS = 315_360_000
_MAX_MS = 2**63 - 2**41  # to which Redis adds the time of the day
_Name = Union[str, bytes, memoryview, int, float]


def _encode(value: Any) -> bytes:
    if isinstance(value, (bytes, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value).encode()
    raise DataError(f"Invalid input of type: '{type(value).__name__}': a name or token is str, bytes, int or float")


def _milliseconds(seconds: Any, what: str) -> int:
    """As there: whole milliseconds of any number."""
    try:
        return int(seconds * 1000)
    except (TypeError, ValueError, OverflowError) as error:
        raise LockError(f"{what} is {seconds!r}, must be a number of seconds: {error}") from None


class _Key(NamedTuple):
    segment: str
    name: bytes


class _Entry:
    """What Redis has under the name of a lock: a token, until it expires or is released."""

    def __init__(self, token: bytes, hold: lockshm.Lock) -> None:
        self.token = token
        self.hold = hold
        self.pid = os.getpid()

    def is_live(self) -> bool:
        return self.hold.remaining > 0

    def end(self, cooldown: float = 0.0) -> None:
        with contextlib.suppress(lockshm.Lost, lockshm.NotOwned):
            if not self.hold.check():
                self.hold.renew(1)  # that it had expired is no news, and not to be logged as one
        with contextlib.suppress(lockshm.Lost, lockshm.NotOwned):
            self.hold.release(cooldown)


_entries: dict[_Key, _Entry] = {}
"""The locks that this process has taken, whatever became of the objects that took them."""
_turn: deque[tuple[_Key, _Entry]] = deque()
_guard = threading.RLock()


def _after_fork() -> None:
    global _guard
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _at_exit() -> None:
    """As in Redis a lock that was not released stays until its timeout, if this process ends in good order."""
    for entry in list(_entries.values()):
        if entry.pid == os.getpid():
            left = entry.hold.remaining
            entry.end(left if left != math.inf else 0.0)


atexit.register(_at_exit)


def _forget(key: _Key, entry: _Entry) -> None:
    with _guard:
        if _entries.get(key) is entry:
            del _entries[key]
    entry.end()


def _look_at_the_oldest() -> None:
    """Two for each lock that is taken, so that what has expired does not pile up."""
    for _ in range(2):
        try:
            key, entry = _turn.popleft()
        except IndexError:
            return
        if _entries.get(key) is not entry:
            continue
        if entry.is_live() or entry.pid != os.getpid():
            _turn.append((key, entry))
        else:
            _forget(key, entry)


def _store(key: _Key, entry: _Entry) -> None:
    with _guard:
        before = _entries.get(key)
        _entries[key] = entry
    if before is not None:  # expired, or it would still be held
        before.end()
    _turn.append((key, entry))
    _look_at_the_oldest()


class _Claim:
    """In ``local`` of a lock without a timeout: when it goes away, with the lock object or the thread, no part of the program has
    the token any more."""

    def __init__(self, key: _Key, entry: _Entry) -> None:
        self.key = key
        self.entry = entry

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if ending():
            return
        if self.entry.pid == os.getpid() and _entries.get(self.key) is self.entry and self.entry.is_live():
            warnings.warn(
                f"{self.key.name!r}: the lock object, or its thread, ended without a release: the lock has no timeout and stays"
                " held as long as this process lives",
                ResourceWarning,
                stacklevel=2,
            )


class Redis:
    """Where a program has a client: lock() is all it can do."""

    def __init__(self, locks: Union[lockshm.Locks, str]) -> None:
        self.locks = lockshm.open(locks) if isinstance(locks, str) else locks

    def lock(
        self,
        name: _Name,
        timeout: Optional[float] = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[float] = None,
        lock_class: Optional[Callable[..., Any]] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> Any:
        options: dict[str, Any] = {} if raise_on_release_error else {"raise_on_release_error": False}
        return (lock_class or Lock)(
            self,
            name,
            timeout=timeout,
            sleep=sleep,
            blocking=blocking,
            blocking_timeout=blocking_timeout,
            thread_local=thread_local,
            **options,
        )


class Lock:
    """As redis.lock.Lock: not re-entrant; with thread_local only the thread that acquired it can release it."""

    def __init__(
        self,
        redis: Union[Redis, lockshm.Locks],
        name: _Name,
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
        self.redis = redis
        self.locks = locks
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self.local.token = None

    def _error(self, kind: type[Exception], message: str) -> Exception:
        error = kind(f"{self.name!r}: {message}")
        error.lock_name = self.name  # type: ignore[attr-defined]
        return error

    def _key(self) -> _Key:
        name = _encode(self.name)
        if not 1 <= len(name) <= 65535:
            raise self._error(LockError, f"a name has 1 to 65535 bytes here, this one {len(name)}")
        return _Key(self.locks.name, name)

    def _token(self, verb: str) -> bytes:
        token = getattr(self.local, "token", None)
        if token is None:
            raise self._error(LockError, f"cannot {verb} a lock that is not owned, or is unlocked already")
        return _encode(token)

    def _owned(self, token: bytes, verb: str) -> _Entry:
        """Raises LockNotOwnedError unless it is held under that token, and its timeout has not come."""
        key = self._key()
        entry = _entries.get(key)
        if entry is None or entry.token != token:
            raise self._error(LockNotOwnedError, f"cannot {verb} a lock that is no longer owned")
        try:
            left = entry.hold.check()
        except (lockshm.Lost, lockshm.NotOwned) as error:
            raise self._error(LockNotOwnedError, f"cannot {verb} a lock that is not owned: {error}") from error
        if left <= 0:
            _forget(key, entry)
            raise self._error(LockNotOwnedError, f"cannot {verb} a lock that is no longer owned: its timeout has come")
        return entry

    def _request(self, key: _Key) -> lockshm.Lock:
        if not self.timeout:
            return self.locks.exclusive(key.name, lease=None)
        ms = _milliseconds(self.timeout, "timeout")
        if not 1 <= ms <= _MAX_MS:
            raise ResponseError(f"invalid expire time: {self.name!r}: timeout is {self.timeout!r} s, {ms} ms")
        return self.locks.exclusive(key.name, lease=min(ms / 1000, _TEN_YEARS), renew=False)

    def _bound(self, sleep: Any, blocking_timeout: Any) -> Optional[float]:
        """Longest wait after a try that failed: until the last poll there, which is before blocking_timeout."""
        sleep = 0.0 + sleep
        bound = None
        if blocking_timeout is not None:
            if blocking_timeout != blocking_timeout:
                raise self._error(LockError, "blocking_timeout is not a number")
            bound = min(max(float(blocking_timeout), 0.0), _TEN_YEARS)
            if sleep >= bound:
                return 0.0
        if not 0 <= sleep <= threading.TIMEOUT_MAX:
            raise self._error(LockError, f"sleep is {sleep!r}, must be seconds")
        return bound if bound is None or sleep < 1e-6 else (math.ceil(bound / sleep) - 1) * sleep

    def acquire(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[_Name] = None,
    ) -> bool:
        """True, or False if it is not granted before blocking_timeout."""
        mark = None if token is None else _encode(token)
        blocking = self.blocking if blocking is None else blocking
        bound = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if bound is not None:
            bound + 0.0  # as there: what is no number is refused before the first try
        key = self._key()
        entry = self._take(key, mark, 0)
        if entry is None and blocking:
            entry = self._take(key, mark, self._bound(self.sleep if sleep is None else sleep, bound))
        if entry is None:
            return False
        self.local.token = entry.token
        if not self.timeout:
            self.local.claim = _Claim(key, entry)
        return True

    def _take(self, key: _Key, token: Optional[bytes], bound: Optional[float]) -> Optional[_Entry]:
        """A lock that is given no token has its fencing token as text."""
        hold = self._request(key)
        if not hold.acquire(timeout=bound):
            return None
        entry = _Entry(str(hold.token).encode() if token is None else token, hold)
        _store(key, entry)
        return entry

    def do_acquire(self, token: Any) -> bool:
        """One try."""
        return self._take(self._key(), _encode(token), 0) is not None

    def __enter__(self) -> Lock:
        if not self.acquire():
            raise self._error(LockError, "not acquired within the time specified")
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
        token = self._token("release")
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: Any) -> None:
        """Of the lock that has this token, whichever object took it."""
        entry = self._owned(_encode(expected_token), "release")
        _forget(self._key(), entry)

    def locked(self) -> bool:
        """True if a process of this host holds it."""
        return self.locks.locked(self._key().name)

    def owned(self) -> bool:
        """True if it is held under the token of this object (and thread)."""
        token = getattr(self.local, "token", None)
        entry = _entries.get(self._key())
        return token is not None and entry is not None and entry.token == _encode(token) and entry.is_live()

    @property
    def token(self) -> int:
        """Fencing token of the hold, which rises from hold to hold; ``local.token`` is that of redis-py."""
        return self._owned(self._token("read the token of"), "read the token of").hold.token

    def _lease(self, verb: str) -> bytes:
        token = self._token(verb)
        if self.timeout is None:
            raise self._error(LockError, f"cannot {verb} a lock with no timeout")
        return token

    def _set_lease(self, verb: str, seconds: Any, replace: bool) -> bool:
        """As there: a time that is over ends it."""
        token, ms = _encode(self.local.token), _milliseconds(seconds, "the time")
        entry = self._owned(token, verb)
        if abs(ms) > _MAX_MS:
            raise ResponseError(f"invalid expire time: {self.name!r}: {ms} ms")
        if entry.hold.remaining == math.inf:  # timeout=0
            raise self._error(LockNotOwnedError, f"cannot {verb} a lock with no timeout")
        left = ms / 1000 if replace else entry.hold.remaining + ms / 1000
        if left < 0.001:
            _forget(self._key(), entry)
        elif replace or ms < 1 or left > _TEN_YEARS:
            entry.hold.renew(min(left, _TEN_YEARS))
        else:
            entry.hold.extend(ms / 1000)
        return True

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        self._lease("extend")
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> bool:
        return self._set_lease("extend", additional_time, replace_ttl)

    def reacquire(self) -> bool:
        """Set the lease to its full time again."""
        self._lease("reacquire")
        return self.do_reacquire()

    def do_reacquire(self) -> bool:
        return self._set_lease("reacquire", self.timeout, True)
