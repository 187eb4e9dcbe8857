# SPDX-License-Identifier: MIT
"""on_lost of threads: a pipe that the library writes to, read by a thread of this module.  For asyncio see _aio."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Any, Optional
from weakref import ref

from ._lockshm import Lock
from ._report import log


class _Watcher:
    """The locks whose loss one daemon thread reports, started at the first hold with on_lost.  Threads, signal handlers
    and finalizers use the table at any time, so each use of it is one step of the interpreter."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.locks: dict[int, ref[Lock]] = {}
        threading.Thread(target=self._run, name="lockshm-on-lost", daemon=True).start()

    def add(self, lock: Lock, number: int) -> None:
        key, locks = id(lock), self.locks
        locks[key] = ref(lock, lambda _: locks.pop(key, None))
        lock._notify(self.writer, number)

    def discard(self, lock: Lock) -> None:
        self.locks.pop(id(lock), None)

    def _lost(self) -> list[Lock]:
        """Empty the pipe, and find out which they are."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 65536)
        locks = [reference() for reference in list(self.locks.values())]
        return [lock for lock in locks if lock is not None and lock._tell_lost()]

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        while poll.poll():
            for lock in self._lost():
                call(lock)

    def __del__(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


_guard = threading.RLock()
_watcher: Optional[_Watcher] = None


def _forget() -> None:
    global _watcher, _guard
    _guard = threading.RLock()
    _watcher = None


os.register_at_fork(after_in_child=_forget)


def call(lock: Lock) -> Any:
    try:
        return lock.on_lost(lock) if lock.on_lost else None
    except Exception:
        log().exception("%r: on_lost failed", lock.key)
        return None


def watch(lock: Lock, number: int) -> None:
    """Called right after the grant of that number."""
    global _watcher
    with _guard:
        if _watcher is None:
            _watcher = _Watcher()
        watcher = _watcher
    watcher.add(lock, number)


def unwatch(lock: Lock) -> None:
    """Called after the release of its last hold."""
    if _watcher is not None:
        _watcher.discard(lock)
