# SPDX-License-Identifier: MIT
"""on_lost: a pipe that the library writes to, read by an event loop, or by a thread of this module."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING, Any, Optional
from weakref import WeakKeyDictionary, ref

from ._lockshm import Lock
from ._report import log

if TYPE_CHECKING:
    import asyncio


class _Watcher:
    """The locks whose loss one reader reports.  Threads, signal handlers and finalizers use the table at any time, so
    each use of it is one step of the interpreter."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.locks: dict[int, ref[Lock]] = {}

    def add(self, lock: Lock, number: int) -> None:
        key, locks = id(lock), self.locks
        locks[key] = ref(lock, lambda _: locks.pop(key, None))
        lock._notify(self.writer, number)

    def discard(self, lock: Lock) -> None:
        self.locks.pop(id(lock), None)

    def lost(self) -> list[Lock]:
        """Empty the pipe, and find out which they are."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 65536)
        locks = [reference() for reference in list(self.locks.values())]
        return [lock for lock in locks if lock is not None and lock._tell_lost()]

    def __del__(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


class _ThreadWatcher(_Watcher):
    """A daemon thread, started at the first hold with on_lost."""

    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self._run, name="lockshm-on-lost", daemon=True).start()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        while poll.poll():
            for lock in self.lost():
                _call(lock)


class _LoopWatcher(_Watcher):
    def __init__(self, events: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.tasks: set[asyncio.Future[Any]] = set()
        events.add_reader(self.reader, self._ready)

    def _keep(self, task: asyncio.Future[Any]) -> None:
        """An event loop has weak references to its tasks."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _ready(self) -> None:
        import asyncio

        for lock in self.lost():
            task = _call(lock)
            if asyncio.iscoroutine(task):
                self._keep(asyncio.ensure_future(task))


_guard = threading.RLock()
_thread: Optional[_ThreadWatcher] = None
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWatcher] = WeakKeyDictionary()


def _forget() -> None:
    global _thread, _guard
    _guard = threading.RLock()
    _thread = None
    _loops.clear()


os.register_at_fork(after_in_child=_forget)


def _call(lock: Lock) -> Any:
    try:
        return lock.on_lost(lock) if lock.on_lost else None
    except Exception:
        log().exception("%r: on_lost failed", lock.key)
        return None


def _loop_watcher() -> _Watcher:
    import asyncio

    events = asyncio.get_running_loop()
    if events not in _loops:
        _loops[events] = _LoopWatcher(events)
    return _loops[events]


def _thread_watcher() -> _Watcher:
    global _thread
    with _guard:
        if _thread is None:
            _thread = _ThreadWatcher()
        return _thread


def watch(lock: Lock, in_loop: bool, number: int) -> None:
    """Called right after the grant of that number."""
    watcher = _loop_watcher() if in_loop else _thread_watcher()
    watcher.add(lock, number)


def unwatch(lock: Lock) -> None:
    """Called after the release of its last hold."""
    watchers = [_loops.get(events) for events in (reference() for reference in _loops.keyrefs()) if events is not None]
    for watcher in (_thread, *watchers):
        if watcher is not None:
            watcher.discard(lock)
