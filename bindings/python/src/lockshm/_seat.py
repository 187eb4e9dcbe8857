# SPDX-License-Identifier: MIT
"""The two forms of a seat: a thread, and an asyncio task."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Generator, Optional

from ._lockshm import Lock, Segment
from ._report import Cancelled, Key, Lost, NoSegment, log

if TYPE_CHECKING:
    import asyncio

_PAUSE = 1.0
"""Seconds between a failure and the next request, so that a function that fails at once does not fill the log."""


class Seat:
    """A daemon thread that waits for a seat and works in it; see Locks.seat()."""

    def __init__(
        self,
        locks: Segment,
        key: Key,
        fn: Callable[[], Any],
        lease: float,
        tag: Optional[str],
        on_lost: Optional[Callable[[Seat], Any]],
        global_: bool,
        redis_policy: Optional[str],
    ) -> None:
        self._lock: Lock = locks.exclusive(
            key, timeout=None, lease=lease, tag=tag, global_=global_, redis_policy=redis_policy, on_lost=self._lost
        )
        self._fn = fn
        self._on_lost = on_lost
        self.stopping = threading.Event()
        """Set by stop(): a function that checks it can return."""
        self._thread = threading.Thread(target=self._run, name="lockshm-seat", daemon=True)
        self._thread.start()

    @property
    def held(self) -> bool:
        """True while this process has the seat."""
        return self._lock.held

    def stop(self) -> None:
        """Give up the wait.  If the function runs already it keeps the seat until it returns; see stopping."""
        self.stopping.set()
        self._lock.cancel()

    def join(self, timeout: Optional[float] = None) -> bool:
        """Wait for the end of the thread, up to so many seconds.  Returns whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _lost(self, lock: Lock) -> None:
        log().error("%r: the seat was lost while its function runs", lock.key)
        if self._on_lost:
            self._on_lost(self)

    def _work(self) -> None:
        with self._lock:
            log().info("%r: seat taken", self._lock.key)
            self._fn()

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._work()
                return
            except Cancelled:
                return
            except NoSegment:
                log().exception("%r: no seat any more", self._lock.key)
                return
            except Lost as error:
                log().error("%s; queued again for the seat", error)
                self.stopping.wait(_PAUSE)
            except Exception:
                log().exception("%r: the function of the seat failed; queued again", self._lock.key)
                self.stopping.wait(_PAUSE)


class SeatTask:
    """An asyncio task that waits for a seat and works in it; see Locks.seat_async().  Await it for its end."""

    def __init__(
        self,
        locks: Segment,
        key: Key,
        fn: Callable[[], Awaitable[Any]],
        lease: float,
        tag: Optional[str],
        global_: bool,
        redis_policy: Optional[str],
    ) -> None:
        self._lock: Lock = locks.exclusive(
            key, timeout=None, lease=lease, tag=tag, global_=global_, redis_policy=redis_policy, on_lost=self._lost
        )
        self._fn = fn
        self._work: Optional[asyncio.Future[Any]] = None
        self._stopped = False
        import asyncio

        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def held(self) -> bool:
        """True while this process has the seat."""
        return self._lock.held

    def stop(self) -> None:
        """Cancel the wait, or the function, and give up the seat."""
        self._stopped = True
        self._task.cancel()

    def __await__(self) -> Generator[Any, None, None]:
        import asyncio

        try:
            yield from self._task
        except asyncio.CancelledError:
            if not (self._stopped and self._task.cancelled()):
                raise

    def _lost(self, lock: Lock) -> None:
        log().error("%r: the seat was lost; its function is cancelled", lock.key)
        if self._work is not None:
            self._work.cancel()

    async def _serve(self) -> None:
        """Returns when the function has returned.  If the seat is lost the function is cancelled, and this raises Lost."""
        import asyncio

        async with self._lock:
            log().info("%r: seat taken", self._lock.key)
            self._work = asyncio.ensure_future(self._fn())
            try:
                await asyncio.wait([self._work])
            except asyncio.CancelledError:
                self._work.cancel()
                await asyncio.wait([self._work])
                raise
            if not self._work.cancelled():
                self._work.result()

    async def _run(self) -> None:
        import asyncio

        while True:
            try:
                await self._serve()
                return
            except NoSegment:
                log().exception("%r: no seat any more", self._lock.key)
                return
            except Lost as error:
                log().error("%s; queued again for the seat", error)
                await asyncio.sleep(_PAUSE)
            except Exception:
                log().exception("%r: the function of the seat failed; queued again", self._lock.key)
                await asyncio.sleep(_PAUSE)
