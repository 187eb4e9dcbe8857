# SPDX-License-Identifier: MIT
"""The names of the package filelock: ``from lockshm.compat.filelock import FileLock, Timeout``.

A path is a key here: no file is made, locked or removed, but a path whose file could not be made is refused as there.
All users of a path on the host exclude each other if they open the same segment, which is "filelock-" and the user's
number unless configure() names another one.  A lock lives as long as its process, as there.  What differs is in
MIGRATING.md.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
import threading
import warnings
from abc import ABCMeta, abstractmethod
from contextlib import ContextDecorator
from types import SimpleNamespace, TracebackType
from typing import Any, Callable, Optional, Union, cast
from weakref import WeakValueDictionary

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
    "WindowsFileLock",
    "configure",
]

_Path = Union[str, "os.PathLike[Any]"]
_LOG = logging.getLogger("filelock")
_TEN_YEARS = 315_360_000
_segment_name: Optional[str] = None
_opened: dict[str, lockshm.Locks] = {}
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def configure(segment: str) -> None:
    """Use this segment for all lock objects that are made from now on."""
    global _segment_name
    _segment_name = segment


def _locks() -> lockshm.Locks:
    name = _segment_name or f"filelock-{os.getuid()}"
    if name not in _opened:
        _opened[name] = lockshm.open(name)
    return _opened[name]


def _refuse(number: int, path: Any) -> None:
    raise OSError(number, os.strerror(number), path)


def _key(path: Any) -> bytes:
    """The file that the path leads to.  Raises what opening it for writing there would."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        if not os.path.basename(path):
            _refuse(errno.EISDIR if path else errno.ENOENT, path)
        directory = os.path.dirname(path) or os.curdir
        os.stat(directory)
        if not os.access(directory, os.W_OK | os.X_OK):
            _refuse(errno.EACCES, path)
    else:
        if stat.S_ISLNK(mode):
            _refuse(errno.ELOOP, path)
        if stat.S_ISDIR(mode):
            _refuse(errno.EISDIR, path)
        if not os.access(path, os.R_OK | os.W_OK):
            _refuse(errno.EACCES, path)
    return os.fsencode(os.path.realpath(path))


class Timeout(TimeoutError):
    """Not acquired in time.  ``lock_file`` as there; ``reason``, which is new, says why: a Holder, or a text."""

    def __init__(self, lock_file: str, reason: Union[lockshm.Holder, str, None] = None) -> None:
        super().__init__()
        self.lock_file = lock_file
        self.reason = reason

    @property
    def holder(self) -> Optional[lockshm.Holder]:
        """What was in the way."""
        return self.reason if isinstance(self.reason, lockshm.Holder) else None

    def __reduce__(self) -> Any:
        return type(self), (self.lock_file, self.reason)

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"The file lock '{self.lock_file}' could not be acquired{why}."


def _bound(timeout: float, blocking: Any, poll_interval: float) -> Optional[float]:
    """Longest wait after a try that failed, as the loop of the original ends: below 0 means no bound, and so does what
    is no number there, which is refused here."""
    if blocking is False:
        return 0.0
    if timeout != timeout:
        raise ValueError("timeout is not a number")
    if timeout == 0:
        return 0.0
    if not 0 <= poll_interval <= threading.TIMEOUT_MAX:
        raise ValueError(f"poll_interval is {poll_interval!r}, must be seconds")
    return None if timeout < 0 else float(min(timeout, _TEN_YEARS))


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


class _Count:
    """How often a lock object is entered: by one thread, or without thread_local by all."""

    def __init__(self) -> None:
        self.forks = _forks
        self.guard = threading.RLock()  # a signal handler may enter, too
        self.lock: Optional[lockshm.Lock] = None
        self.held = False
        self.entered = 0

    def enter(self) -> bool:
        """Once more, if it is held."""
        with self.guard:
            self.entered += self.held
            return self.held

    def begin(self) -> None:
        with self.guard:
            self.held, self.entered = True, 1

    def leave(self, force: bool) -> bool:
        """Whether the lock is to be released."""
        with self.guard:
            if not self.held:
                return False
            self.entered = 0 if force else self.entered - 1
            self.held = self.entered > 0
            return not self.held


class _Meta(ABCMeta):
    """is_singleton: one object for a path and class."""

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, space, **kwargs)
        cls._instances: WeakValueDictionary[str, Any] = WeakValueDictionary()

    def __call__(cls, lock_file: _Path, *args: Any, is_singleton: bool = False, **kwargs: Any) -> Any:
        if not is_singleton:
            return super().__call__(lock_file, *args, **kwargs)
        lock = cls._instances.get(str(lock_file))
        if lock is None:
            lock = super().__call__(lock_file, *args, is_singleton=True, **kwargs)
            lock._arguments = args, kwargs
            cls._instances[str(lock_file)] = lock
        elif lock._arguments != (args, kwargs):
            raise ValueError(f"{lock_file}: the one lock object of this path (is_singleton) was made with other arguments")
        return lock


class _PathLock(metaclass=_Meta):
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
        self._timeout = timeout
        self.mode = mode
        self.blocking = blocking
        self.is_singleton = is_singleton
        self.poll_interval = poll_interval

    @property
    def _count(self) -> _Count:
        """Of this thread; in a child made by fork() a new one: the hold is its parent's."""
        count: Optional[_Count] = getattr(self._context, "count", None)
        if count is None or count.forks != _forks:
            count = self._context.count = _Count()
        return count

    def _lock_of(self, count: _Count) -> lockshm.Lock:
        if count.lock is None:
            count.lock = self._locks.exclusive(_key(self._path), timeout=0, lease=None)
        return count.lock

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
        return self._count.held

    @property
    def lock_counter(self) -> int:
        return self._count.entered

    def is_thread_local(self) -> bool:
        return self._thread_local

    def _debug(self, text: str) -> None:
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug(text, id(self), self.lock_file)

    def _bound(self, lock: lockshm.Lock, timeout: Any, poll_interval: Any, blocking: Any) -> Optional[float]:
        """After a try that failed.  Raises Timeout if it was the only one."""
        timeout = self.timeout if timeout is None else timeout
        blocking = self.blocking if blocking is None else blocking
        try:
            bound = _bound(timeout, blocking, self.poll_interval if poll_interval is None else poll_interval)
        except ValueError as error:
            raise Timeout(self.lock_file, str(error)) from None
        if bound == 0:
            self._refused(lock)
        return bound

    def _refused(self, lock: lockshm.Lock) -> None:
        self._debug("Timeout on acquiring lock %s on %s")
        raise Timeout(self.lock_file, lock.holder)

    def _granted(self, count: _Count) -> AcquireReturnProxy:
        count.begin()
        self._debug("Lock %s acquired on %s")
        return AcquireReturnProxy(self)

    def _leave(self, force: bool) -> None:
        count = self._count
        if count.leave(force):
            self._debug("Attempting to release lock %s on %s")
            cast(lockshm.Lock, count.lock).release()
            self._debug("Lock %s released on %s")

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending() and hasattr(self, "_context"):
            self._leave(True)


class BaseFileLock(_PathLock, ContextDecorator):
    """A lock of a path, which counts.  With thread_local each thread has a count, and a hold, of its own."""

    @abstractmethod
    def _acquire(self) -> lockshm.Lock:
        """The lock object of this thread."""

    def acquire(
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        poll_intervall: Optional[float] = None,
        blocking: Optional[bool] = None,
    ) -> AcquireReturnProxy:
        """Wait for the lock, without polling.  Raises Timeout."""
        if poll_intervall is not None:
            warnings.warn("use poll_interval instead of poll_intervall", DeprecationWarning, stacklevel=2)
            poll_interval = poll_intervall
        count = self._count
        if count.enter():
            return AcquireReturnProxy(self)
        self._debug("Attempting to acquire lock %s on %s")
        lock = self._acquire()
        if not lock.acquire(False):
            if not lock.acquire(timeout=self._bound(lock, timeout, poll_interval, blocking)):
                self._refused(lock)
        return self._granted(count)

    def release(self, force: bool = False) -> None:
        """Count down, or to 0 with force.  Nothing happens if it is not held."""
        self._leave(force)

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
    def _acquire(self) -> lockshm.Lock:
        return self._lock_of(self._count)


class SoftFileLock(UnixFileLock):
    pass


class WindowsFileLock(BaseFileLock):
    """Not on Linux, as there."""

    def _acquire(self) -> lockshm.Lock:
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError


FileLock = UnixFileLock


class AsyncFileLock(_PathLock):
    """For asyncio: acquire() and release() are coroutines.  No executor is used."""

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
        if thread_local and run_in_executor:
            raise ValueError("run_in_executor is not supported when thread_local is True")
        super().__init__(
            lock_file, timeout, mode, thread_local, blocking=blocking, is_singleton=is_singleton, poll_interval=poll_interval
        )

    async def acquire(
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        blocking: Optional[bool] = None,
    ) -> AcquireReturnProxy:
        """Wait for the lock, without polling.  Raises Timeout."""
        count = self._count
        if count.enter():
            return AcquireReturnProxy(self)
        self._debug("Attempting to acquire lock %s on %s")
        lock = self._lock_of(count)
        if not await lock.acquire_async(False):
            if not await lock.acquire_async(timeout=self._bound(lock, timeout, poll_interval, blocking)):
                self._refused(lock)
        return self._granted(count)

    async def release(self, force: bool = False) -> None:
        self._leave(force)

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
    """Many readers or one writer.  Readers and writers are granted in arrival order; re-entry is counted for each thread."""

    def __init__(
        self, lock_file: _Path, timeout: float = -1, *, blocking: bool = True, is_singleton: bool = True
    ) -> None:
        self.lock_file = os.fspath(lock_file)
        self.timeout = timeout
        self.blocking = blocking
        key, locks = _key(self.lock_file), _locks()
        self._read = locks.shared(key, lease=None, reentrant=True)
        self._write = locks.exclusive(key, lease=None, reentrant=True)

    def _acquire(self, lock: lockshm.Lock, other: lockshm.Lock, timeout: float, blocking: bool) -> AcquireReturnProxy:
        if other.count:
            raise RuntimeError(f"{self.lock_file} is held in the other mode: neither upgrade nor downgrade is possible")
        try:
            bound = _bound(timeout, blocking, 0)
        except ValueError as error:
            raise Timeout(self.lock_file, str(error)) from None
        if not lock.acquire(timeout=bound):
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
