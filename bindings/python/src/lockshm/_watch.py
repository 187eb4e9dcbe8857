# SPDX-License-Identifier: MIT
"""on_lost: a pipe that the library writes to, read by an event loop, or by a thread of this module."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import select
import threading
from typing import Any, Optional
from weakref import WeakKeyDictionary, WeakSet

from ._lockshm import Lock
from ._report import log


class _Watcher:
    """The locks whose loss one reader reports."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.locks: WeakSet[Lock] = WeakSet()
        self.guard = threading.Lock()

    def add(self, lock: Lock) -> None:
        with self.guard:
            self.locks.add(lock)
        lock._notify(self.writer)

    def discard(self, lock: Lock) -> None:
        with self.guard:
            self.locks.discard(lock)

    def lost(self) -> list[Lock]:
        """Empty the pipe, and find out which they are."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 65536)
        with self.guard:
            lost = [lock for lock in self.locks if lock._is_lost()]
            for lock in lost:
                self.locks.discard(lock)
        return lost

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
        for lock in self.lost():
            task = _call(lock)
            if inspect.iscoroutine(task):
                self._keep(asyncio.ensure_future(task))


_guard = threading.Lock()
_thread: Optional[_ThreadWatcher] = None
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWatcher] = WeakKeyDictionary()


def _forget() -> None:
    global _thread, _guard
    _guard = threading.Lock()
    _thread = None
    _loops.clear()


os.register_at_fork(after_in_child=_forget)


def _call(lock: Lock) -> Any:
    try:
        return lock.on_lost(lock) if lock.on_lost else None
    except Exception:
        log.exception("%r: on_lost failed", lock.key)
        return None


def _watcher(in_task: bool) -> _Watcher:
    global _thread
    with _guard:
        if in_task:
            events = asyncio.get_running_loop()
            if events not in _loops:
                _loops[events] = _LoopWatcher(events)
            return _loops[events]
        if _thread is None:
            _thread = _ThreadWatcher()
        return _thread


def watch(lock: Lock, in_task: bool) -> None:
    """Called right after the grant."""
    _watcher(in_task).add(lock)


def unwatch(lock: Lock) -> None:
    """Called before a release."""
    with _guard:
        watchers: list[Optional[_Watcher]] = [_thread, *_loops.values()]
    for watcher in watchers:
        if watcher is not None:
            watcher.discard(lock)
