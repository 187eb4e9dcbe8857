# SPDX-License-Identifier: MIT
"""What the C part cannot do well in C: exceptions, their messages, and the log.  Nothing here runs for a free key."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import _lockshm

if TYPE_CHECKING:
    import logging

Key = Union[str, bytes]

_STATES = {2: "waiting", 3: "holding", 4: "cooling", 5: "bargeable"}
_MODES = {2: "shared", 3: "exclusive"}
_TABLES = {1: "keys", 2: "requests", 3: "owners", 4: "tickets", 5: "host_leases"}
_FOREVER_NS = 2**63 - 1


def log() -> logging.Logger:
    """Imported when there is something to log: for scripts that only take a lock."""
    import logging

    return logging.getLogger("lockshm")


class Holder(NamedTuple):
    """A request that holds a key or waits for it."""

    state: str
    """"holding", "waiting", "cooling" (released with a cooldown) or "bargeable"."""
    mode: str
    """"exclusive" or "shared"."""
    pid: int
    """As seen in its own pid namespace; 0 = not known any more."""
    tid: int
    name: str
    """Name of the thread that stands for it; of a hold of a process, that of the library's service thread."""
    tag: str
    token: int
    """0 = none yet, of a wait."""
    age: float
    """Seconds since the grant, or since the wait began."""
    expires_in: Optional[float]
    """Seconds; negative = overdue; None = strict, or waiting."""

    def __str__(self) -> str:
        state, mode = _number(_STATES, self.state), _number(_MODES, self.mode)
        return _lockshm.explain(state, mode, self.pid, self.name, self.tag, self.age, self.expires_in or 0.0)


class Damage(NamedTuple):
    """A damage mark: the exclusive holder of a robust key that ended without a release."""

    status: str
    """"OWNER_DIED" or "TOOK_OVER_EXPIRED"."""
    pid: int
    tid: int
    token: int
    age: float
    tag: str


class Error(Exception):
    """Base of all exceptions of this package."""


class _RequestError(Error):
    def __init__(self, message: str, key: Key = "", holder: Optional[Holder] = None, waited: float = 0.0) -> None:
        super().__init__(message)
        self.key = key
        self.holder = holder
        self.waited = waited

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.key, self.holder, self.waited)


class Timeout(_RequestError, TimeoutError):
    """Not granted in time.  ``holder`` was in the way, ``waited`` are the seconds of the wait."""


class Busy(Timeout):
    """Not free at this moment: a try, or upgrade()."""


class BridgeFailure(_RequestError, ConnectionError):
    """A global key: no lockshm-bridge runs on this host, or Redis is out of reach, or refuses; the message says which."""


class Cancelled(_RequestError):
    """Lock.cancel() ended the wait."""


class NotOwned(Error, RuntimeError):
    """Not held: never acquired, released before, or held by the parent of this process."""


class Lost(Error):
    """The hold was taken away: the lease ended and another request took the lock, or an operator ended it.

    ``token`` is that of the lost hold, ``lost_to`` one that was issued after it, or 0.
    """

    def __init__(self, message: str, token: int = 0, lost_to: int = 0) -> None:
        super().__init__(message)
        self.token = token
        self.lost_to = lost_to

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.token, self.lost_to)


class Full(Error):
    """A table of the segment is full; ``table`` is "keys", "requests", "owners" or "host_leases".

    open() with greater capacities counts for a new segment only: see open() for how to remove this one.
    """

    def __init__(self, message: str, table: str = "") -> None:
        super().__init__(message)
        self.table = table


class Invalid(Error, ValueError):
    """A wrong argument; the message names it."""


class NoSegment(Error, FileNotFoundError):
    """No such segment, or it was removed while it was open: open it again."""


class Denied(Error, PermissionError):
    """No right to the segment."""


class BadSegment(Error):
    """Damaged, or of another version."""


class SystemFailure(Error, OSError):
    """The system refused something; ``errno`` has the reason."""


_CLASSES: dict[str, type[Error]] = {
    "TIMEOUT": Timeout,
    "BUSY": Busy,
    "BRIDGE": BridgeFailure,
    "CANCELLED": Cancelled,
    "NOT_HELD": NotOwned,
    "LOST": Lost,
    "FULL": Full,
    "INVALID": Invalid,
    "KEY_TOO_LONG": Invalid,
    "NO_SEGMENT": NoSegment,
    "EXISTS": NoSegment,
    "PERMISSION": Denied,
    "BAD_SEGMENT": BadSegment,
    "VERSION": BadSegment,
    "SYSTEM": SystemFailure,
}


for _class in (Holder, Damage, Error, _RequestError, *_CLASSES.values()):
    _class.__module__ = "lockshm"  # as users know them, in tracebacks and pickles


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def _number(words: dict[int, str], word: str) -> int:
    return next((number for number, one in words.items() if one == word), 0)


def holder(
    state: int,
    mode: int,
    pid: int,
    tid: int,
    name: str,
    tag: str,
    token: int,
    age: float,
    expires_in: float,
) -> Holder:
    ends = None if expires_in <= -1e299 else expires_in
    return Holder(_STATES.get(state, "?"), _MODES.get(mode, "?"), pid, tid, name, tag, token, age, ends)


def damage(status: str, pid: int, tid: int, token: int, age: float, tag: str) -> Damage:
    return Damage(status, pid, tid, token, age, tag)


def failure(
    code: str,
    message: str,
    sys_errno: int,
    table: int,
    key: Any,
    waited_ns: int,
    in_the_way: Optional[Holder],
    own: bool,
    token: int,
    lost_to: int,
) -> BaseException:
    """The exception for a code of the library.  ``own``: the same lock object is in the way."""
    waited = waited_ns / 1e9
    if code in ("TIMEOUT", "BUSY", "CANCELLED", "BRIDGE"):
        if code == "CANCELLED":
            message = f"the wait was cancelled after {_seconds(waited)}"
        if own:
            message += ", by this lock object, which was not made with reentrant=True"
        message = f"{key!r}: {message}"
        return _CLASSES[code](message, key, in_the_way, waited)
    message = message if key is None else f"{key!r}: {message}"
    if code == "PERMISSION" and sys_errno != errno.EROFS:  # that message has its own advice
        message += (
            ".  Run as the user that made the segment, or make it with permissions=0o660 and a common group and pass any_owner=True"
        )
    if code == "LOST":
        after = f"; token {lost_to} was issued after it" if lost_to else ""
        return Lost(f"{message} (token {token}{after})", token, lost_to)
    if code == "FULL":
        return Full(message, _TABLES.get(table, ""))
    if code == "NO_MEMORY":
        return MemoryError(message)
    error = _CLASSES.get(code, Error)(message)
    if sys_errno and isinstance(error, OSError):
        error.errno = sys_errno
    return error


def upgrade_refused(key: Key, requests: list[Holder], token: int) -> Busy:
    other = next((one for one in requests if one.token != token), None)
    why = f": {other}" if other else ""
    return Busy(f"{key!r}: no upgrade, as other requests hold it or wait{why}", key, other)


def log_hold(event: str, key: Any, token: int, lost_to: int) -> None:
    """A release that could not be reported by an exception, or needs none."""
    if event == "late":
        log().warning("%r: released after its lease had expired; no other request had taken the lock (token %d)", key, token)
    elif event == "lost":
        log().error("%r: lost before its release (token %d, issued after it %d)", key, token, lost_to)
    else:
        log().error("%r: not held at its release (token %d)", key, token)


def running_task() -> Any:
    """The asyncio task that runs in this thread, else the greenlet, or None.  Imports neither."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and hasattr(asyncio, "current_task"):
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            return task
    current_greenlet = getattr(sys.modules.get("greenlet"), "getcurrent", None)
    return current_greenlet() if current_greenlet else None


def coroutine(name: str) -> Any:
    from . import _aio

    return getattr(_aio, name)


def watch(lock: Any, number: int) -> None:
    from . import _watch

    _watch.watch(lock, number)


def unwatch(lock: Any) -> None:
    from . import _watch

    _watch.unwatch(lock)


def skipped(key: Any, what: str, in_the_way: Optional[Holder]) -> None:
    """A try that was not granted, so that it is seen."""
    log().info("%r: %s skipped in pid %d: %s", key, what, os.getpid(), in_the_way or "not free")
