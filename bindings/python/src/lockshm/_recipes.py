# SPDX-License-Identifier: MIT
"""Locks: a segment, with what servers do with it in one call: single flight, once, seat."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Awaitable, Callable, NamedTuple, Optional, Sequence, TypeVar, Union, cast

from ._lockshm import Lock, Many, Segment
from ._report import Holder, Key, Timeout, skipped
from ._seat import Seat, SeatTask

T = TypeVar("T")
_Maybe = Union[T, Awaitable[T]]

_TEN_YEARS = 315_360_000
"""Longest cooldown of a key, in seconds."""


class Once(NamedTuple):
    """What once() did; true if it ran."""

    ran: bool
    value: Any = None
    """Of the function."""
    holder: Optional[Holder] = None
    """Of a skipped run: the process that runs it now, or the cooldown of the last run."""

    def __bool__(self) -> bool:
        return self.ran


class _Granted:
    """Releases a lock that is held already."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._lock.__exit__(kind, value, traceback)


async def _value(value: _Maybe[T]) -> T:
    import inspect

    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else cast(T, value)


def _check_callable(name: str, function: Any) -> None:
    if not callable(function):
        raise TypeError(f"{name} is {function!r}, must be a function")


def _check_plain(name: str, function: Any, async_form: str) -> None:
    """An async function would return a coroutine that never runs."""
    import inspect

    _check_callable(name, function)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        raise TypeError(f"{name} is {function!r}, an async function: use {async_form}()")


def _check_period(period: Any) -> None:
    from numbers import Real

    if not isinstance(period, Real):
        raise TypeError(f"period is {period!r}, must be a number of seconds")
    if not 0 < float(period) <= _TEN_YEARS:
        raise ValueError(f"period is {period!r}, must be seconds, more than 0, up to {_TEN_YEARS} (ten years)")


class Locks(Segment):
    """An open segment; see open().

    With global_ the recipes are for all hosts with the same Redis; redis_policy as for exclusive().
    """

    def __reduce__(self) -> Any:
        from . import open

        return open, (self.name,)

    def __repr__(self) -> str:
        return f"<lockshm.Locks {self.name!r}>"

    def many(
        self,
        keys: Sequence[Key],
        *,
        shared: bool = False,
        timeout: Optional[float] = 5.0,
        lease: Optional[float] = 30.0,
        renew: Optional[bool] = None,
        max_hold: Optional[float] = None,
        tag: Optional[str] = None,
        global_: bool = False,
        redis_policy: Optional[str] = None,
    ) -> Many:
        """Several locks, all or none: usable with with, again and again; arguments as for exclusive().

        timeout is for all of them.  Their order does not matter: the library has one for all programs, so that two calls never
        wait for each other.  A wait sleeps in its thread.
        """
        given = tuple(keys)
        if isinstance(keys, (str, bytes)) or not 1 <= len(given) <= 64:
            raise ValueError(f"keys must be 1 to 64 keys, not {keys!r}")
        lock = (self.shared if shared else self.exclusive)(
            given[0], timeout=timeout, lease=lease, renew=renew, max_hold=max_hold, tag=tag, global_=global_, redis_policy=redis_policy
        )
        if len({key.encode() if isinstance(key, str) else key for key in given}) < len(given):
            raise ValueError(f"one of the keys is given twice: {given!r}")
        return Many(lock, given, ", ".join(map(str, given)))

    def single_flight(
        self,
        key: Key,
        look: Callable[[], T],
        fill: Callable[[], T],
        *,
        absent: Any = None,
        timeout: Optional[float] = 5.0,
        lease: Optional[float] = 30.0,
        tag: Optional[str] = None,
        global_: bool = False,
        redis_policy: Optional[str] = None,
        stale: Optional[Callable[[], T]] = None,
    ) -> T:
        """look(); if that is ``absent`` take the lock, look again, and fill() if it is still absent.

        fill() computes the value, stores it where look() finds it, and returns it.  One process of the host fills, the
        others find the value; if the filler dies half way exactly the next one fills.  The lease is renewed meanwhile.
        Waits up to ``timeout`` seconds, then returns stale(), or raises Timeout without it.
        """
        _check_plain("look", look, "single_flight_async")
        value = look()
        if value is not absent:
            return value
        _check_plain("fill", fill, "single_flight_async")
        if stale is not None:
            _check_plain("stale", stale, "single_flight_async")
        lock = self.exclusive(key, timeout=timeout, lease=lease, tag=tag, global_=global_, redis_policy=redis_policy)
        try:
            lock.acquire()
        except Timeout:
            if stale is None:
                raise
            return stale()
        with _Granted(lock):
            value = look()
            return fill() if value is absent else value

    async def single_flight_async(
        self,
        key: Key,
        look: Callable[[], _Maybe[T]],
        fill: Callable[[], _Maybe[T]],
        *,
        absent: Any = None,
        timeout: Optional[float] = 5.0,
        lease: Optional[float] = 30.0,
        tag: Optional[str] = None,
        global_: bool = False,
        redis_policy: Optional[str] = None,
        stale: Optional[Callable[[], _Maybe[T]]] = None,
    ) -> T:
        """single_flight() for asyncio; the functions may be plain or async ones."""
        _check_callable("look", look)
        value = await _value(look())
        if value is not absent:
            return value
        _check_callable("fill", fill)
        if stale is not None:
            _check_callable("stale", stale)
        lock = self.exclusive(key, timeout=timeout, lease=lease, tag=tag, global_=global_, redis_policy=redis_policy)
        try:
            await lock.acquire_async()
        except Timeout:
            if stale is None:
                raise
            return await _value(stale())
        with _Granted(lock):
            value = await _value(look())
            return await _value(fill()) if value is absent else value

    def once(
        self,
        key: Key,
        period: float,
        fn: Callable[[], Any],
        *,
        lease: Optional[float] = 30.0,
        tag: Optional[str] = None,
        retry_on_failure: bool = False,
        global_: bool = False,
        redis_policy: Optional[str] = None,
    ) -> Once:
        """Run fn() unless a process of this host runs it, or ran it within the last ``period`` seconds.

        The period counts from the start of the run.  A run that is killed, or ends by a BaseException that is no
        Exception, leaves no cooldown: the next call runs.  If fn() raises an Exception it does leave one, unless
        retry_on_failure.  A skipped run is logged.  Never waits.
        """
        _check_plain("fn", fn, "once_async")
        lock = self.exclusive(key, timeout=0, lease=lease, tag=tag, global_=global_, redis_policy=redis_policy)
        run = _Run(lock, period, retry_on_failure)
        if not run.lock.acquire(blocking=False):
            return run.skip()
        run.begin()
        try:
            value = fn()
        except BaseException as error:
            run.fail(error)
            raise
        return run.finish(value)

    async def once_async(
        self,
        key: Key,
        period: float,
        fn: Callable[[], Any],
        *,
        lease: Optional[float] = 30.0,
        tag: Optional[str] = None,
        retry_on_failure: bool = False,
        global_: bool = False,
        redis_policy: Optional[str] = None,
    ) -> Once:
        """once() for asyncio; fn may be a plain or an async function.  A run that is cancelled leaves no cooldown."""
        _check_callable("fn", fn)
        lock = self.exclusive(key, timeout=0, lease=lease, tag=tag, global_=global_, redis_policy=redis_policy)
        run = _Run(lock, period, retry_on_failure)
        if not await run.lock.acquire_async(blocking=False):
            return run.skip()
        run.begin()
        try:
            value = await _value(fn())
        except BaseException as error:
            run.fail(error)
            raise
        return run.finish(value)

    def seat(
        self,
        key: Key,
        fn: Callable[[], Any],
        *,
        lease: float = 30.0,
        tag: Optional[str] = None,
        on_lost: Optional[Callable[[Seat], Any]] = None,
        global_: bool = False,
        redis_policy: Optional[str] = None,
    ) -> Seat:
        """Run fn() in exactly one process of the host; another one takes over when that process dies.

        Returns at once.  A daemon thread waits for the seat, without an end, and then runs fn(), which should not
        return: when it does the seat is given up, and the next process runs its fn().  A process that is stopped for longer than
        the lease loses the seat: on_lost(seat) is called in another thread, and should let fn() return.  After that, or
        if fn() raises, this process queues again, after a second and a line in the log.  The thread does not survive fork(): call it in the worker.
        """
        _check_plain("fn", fn, "seat_async")
        if on_lost is not None:
            _check_callable("on_lost", on_lost)
        return Seat(self, key, fn, lease, tag, on_lost, global_, redis_policy)

    def seat_async(
        self,
        key: Key,
        fn: Callable[[], Awaitable[Any]],
        *,
        lease: float = 30.0,
        tag: Optional[str] = None,
        global_: bool = False,
        redis_policy: Optional[str] = None,
    ) -> SeatTask:
        """seat() for asyncio: a task of the running event loop waits for the seat and runs fn().

        If the seat is lost the task of fn() is cancelled, and this process queues again.
        """
        _check_callable("fn", fn)
        return SeatTask(self, key, fn, lease, tag, global_, redis_policy)


class _Run:
    """One call of once()."""

    def __init__(self, lock: Lock, period: float, retry: bool) -> None:
        _check_period(period)
        self.lock = lock
        self.period = period
        self.retry = retry
        self.start = 0.0

    def skip(self) -> Once:
        in_the_way = self.lock.holder
        skipped(self.lock.key, "once", in_the_way)
        return Once(False, None, in_the_way)

    def begin(self) -> None:
        self.start = time.monotonic()

    def _rest(self) -> float:
        return max(0.0, self.period - (time.monotonic() - self.start))

    def fail(self, error: BaseException) -> None:
        if isinstance(error, Exception) and not self.retry and self.lock.held:
            self.lock.release(cooldown=self._rest())
        else:
            self.lock.__exit__(type(error), error, None)

    def finish(self, value: Any) -> Once:
        self.lock.release(cooldown=self._rest())
        return Once(True, value)
