# SPDX-License-Identifier: MIT
"""The names of the package filelock: ``from lockshm.compat.filelock import FileLock, Timeout``.

A path is a key here: no file is made, locked or removed.  All users of a path on the host exclude each other if they
open the same segment, which is "filelock-" and the user's number unless configure() names another one.  A lock lives as
long as its process, as there: the lease of 30 s is renewed by a thread of the C library.  What differs is in
MIGRATING.md.
"""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace, TracebackType
from typing import Any, Optional, Union, cast

import lockshm

__all__ = [
    "AcquireReturnProxy",
    "AsyncFileLock",
    "BaseFileLock",
    "FileLock",
    "ReadWriteLock",
    "SoftFileLock",
    "Timeout",
    "UnixFileLock",
    "configure",
]

_Path = Union[str, "os.PathLike[Any]"]
_segment_name: Optional[str] = None
_opened: dict[str, lockshm.Locks] = {}


def configure(segment: str) -> None:
    """Use this segment for all lock objects that are made from now on."""
    global _segment_name
    _segment_name = segment


def _locks() -> lockshm.Locks:
    name = _segment_name or f"filelock-{os.getuid()}"
    if name not in _opened:
        _opened[name] = lockshm.open(name)
    return _opened[name]


def _key(path: _Path) -> bytes:
    return os.fsencode(os.path.realpath(path))


def _bound(timeout: float, blocking: bool) -> Optional[float]:
    if not blocking:
        return 0.0
    return None if timeout < 0 else timeout


class Timeout(TimeoutError):
    """Not acquired in time.  ``lock_file`` as there; ``holder``, which is new, was in the way."""

    def __init__(self, lock_file: str, holder: Optional[lockshm.Holder] = None) -> None:
        super().__init__()
        self.lock_file = lock_file
        self.holder = holder

    def __reduce__(self) -> Any:
        return type(self), (self.lock_file, self.holder)

    def __str__(self) -> str:
        why = f": {self.holder}" if self.holder else ""
        return f"The file lock '{self.lock_file}' could not be acquired{why}."


class AcquireReturnProxy:
    """What acquire() returns: with it the lock is released, and not acquired once more."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def __enter__(self) -> Any:
        return self.lock

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.lock.release()


class _PathLock:
    """What the lock objects of a path have in common."""

    def __init__(
        self,
        lock_file: _Path,
        timeout: float = -1,
        mode: int = 0o644,
        thread_local: bool = True,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
    ) -> None:
        self._path = os.fspath(lock_file)
        self._locks = _locks()
        self._context: Any = threading.local() if thread_local else SimpleNamespace()
        self._thread_local = thread_local
        self.timeout = timeout
        self.mode = mode
        self.blocking = blocking
        self.is_singleton = is_singleton
        self.poll_interval = poll_interval

    @property
    def _lock(self) -> lockshm.Lock:
        if not hasattr(self._context, "lock"):
            self._context.lock = self._locks.exclusive(_key(self._path), timeout=None, reentrant=True)
        return cast(lockshm.Lock, self._context.lock)

    @property
    def lock_file(self) -> str:
        return cast(str, self._path)

    @property
    def timeout(self) -> float:
        return self._timeout

    @timeout.setter
    def timeout(self, value: Union[float, str]) -> None:
        self._timeout = float(value)

    @property
    def is_locked(self) -> bool:
        return self._lock.count > 0

    @property
    def lock_counter(self) -> int:
        return self._lock.count

    def is_thread_local(self) -> bool:
        return self._thread_local

    def _bound(self, timeout: Optional[float], blocking: Optional[bool]) -> Optional[float]:
        return _bound(self.timeout if timeout is None else timeout, self.blocking if blocking is None else blocking)

    def _release(self, force: bool) -> None:
        lock = self._lock
        for _ in range(lock.count if force else min(lock.count, 1)):
            lock.release()


class BaseFileLock(_PathLock):
    """A lock of a path; re-entrant.  With thread_local each thread has a count, and a hold, of its own."""

    def acquire(
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        poll_intervall: Optional[float] = None,
        blocking: Optional[bool] = None,
    ) -> AcquireReturnProxy:
        """Wait for the lock, without polling.  Raises Timeout."""
        lock = self._lock
        if not lock.acquire(timeout=self._bound(timeout, blocking)):
            raise Timeout(self.lock_file, lock.holder)
        return AcquireReturnProxy(self)

    def release(self, force: bool = False) -> None:
        """Count down, or to 0 with force.  Nothing happens if it is not held."""
        self._release(force)

    def __enter__(self) -> BaseFileLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.release()


class UnixFileLock(BaseFileLock):
    pass


class SoftFileLock(BaseFileLock):
    pass


FileLock = UnixFileLock


class AsyncFileLock(_PathLock):
    """For asyncio: acquire() and release() are coroutines; re-entry is counted for each task.  No executor is used."""

    def __init__(
        self,
        lock_file: _Path,
        timeout: float = -1,
        mode: int = 0o644,
        thread_local: bool = False,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
        loop: Any = None,
        run_in_executor: bool = True,
        executor: Any = None,
    ) -> None:
        super().__init__(
            lock_file, timeout, mode, False, blocking=blocking, is_singleton=is_singleton, poll_interval=poll_interval
        )

    async def acquire(
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        blocking: Optional[bool] = None,
    ) -> AcquireReturnProxy:
        """Wait for the lock, without polling.  Raises Timeout."""
        lock = self._lock
        if not await lock.acquire_async(timeout=self._bound(timeout, blocking)):
            raise Timeout(self.lock_file, lock.holder)
        return AcquireReturnProxy(self)

    async def release(self, force: bool = False) -> None:
        self._release(force)

    async def __aenter__(self) -> AsyncFileLock:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.release()


class ReadWriteLock:
    """Many readers or one writer.  Readers and writers are granted in arrival order."""

    def __init__(
        self, lock_file: _Path, timeout: float = -1, *, blocking: bool = True, is_singleton: bool = True
    ) -> None:
        self.lock_file = os.fspath(lock_file)
        self.timeout = timeout
        self.blocking = blocking
        key, locks = _key(lock_file), _locks()
        self._read = locks.shared(key, timeout=None, reentrant=True)
        self._write = locks.exclusive(key, timeout=None, reentrant=True)

    def _acquire(self, lock: lockshm.Lock, other: lockshm.Lock, timeout: float, blocking: bool) -> AcquireReturnProxy:
        if other.count:
            raise RuntimeError(f"{self.lock_file} is held in the other mode: neither upgrade nor downgrade is possible")
        if not lock.acquire(timeout=_bound(timeout, blocking)):
            raise Timeout(self.lock_file, lock.holder)
        return AcquireReturnProxy(self)

    def acquire_read(self, timeout: float = -1, *, blocking: bool = True) -> AcquireReturnProxy:
        return self._acquire(self._read, self._write, timeout, blocking)

    def acquire_write(self, timeout: float = -1, *, blocking: bool = True) -> AcquireReturnProxy:
        return self._acquire(self._write, self._read, timeout, blocking)

    def read_lock(self, timeout: Optional[float] = None, *, blocking: Optional[bool] = None) -> AcquireReturnProxy:
        """For with.  It is acquired by this call."""
        return self.acquire_read(
            self.timeout if timeout is None else timeout, blocking=self.blocking if blocking is None else blocking
        )

    def write_lock(self, timeout: Optional[float] = None, *, blocking: Optional[bool] = None) -> AcquireReturnProxy:
        """For with.  It is acquired by this call."""
        return self.acquire_write(
            self.timeout if timeout is None else timeout, blocking=self.blocking if blocking is None else blocking
        )

    def release(self, *, force: bool = False) -> None:
        lock = self._write if self._write.count else self._read
        if not lock.count:
            if force:
                return
            raise RuntimeError(f"cannot release a lock on {self.lock_file} that is not held")
        for _ in range(lock.count if force else 1):
            lock.release()

    def close(self) -> None:
        self.release(force=True)
