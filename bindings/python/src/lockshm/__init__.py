# SPDX-License-Identifier: MIT
"""Keyed, fair, crash-proof read-write locks of the processes of one host.

    locks = lockshm.open("shop")
    with locks.exclusive("report", timeout=5) as hold:
        ...

A hold belongs to the process: any thread or task may release it, and it ends with the process, however that ends.
"""

from __future__ import annotations

from typing import Sequence, Union

from ._lockshm import Lock, Many, destroy, library_version, option_kinds
from ._recipes import Locks, Once
from ._seat import Seat, SeatTask
from ._report import (
    BadSegment,
    BridgeFailure,
    Busy,
    Cancelled,
    Denied,
    Error,
    Full,
    Holder,
    Invalid,
    Lost,
    NoSegment,
    NotOwned,
    Damage,
    SystemFailure,
    Timeout,
)

__version__ = "0.1.0"

__all__ = [
    "BadSegment",
    "BridgeFailure",
    "Busy",
    "Cancelled",
    "Denied",
    "Error",
    "Full",
    "Holder",
    "Invalid",
    "Lock",
    "Locks",
    "Lost",
    "Many",
    "NoSegment",
    "NotOwned",
    "Once",
    "Damage",
    "Seat",
    "SeatTask",
    "SystemFailure",
    "Timeout",
    "destroy",
    "library_version",
    "open",
]


Option = Union[str, int, float, bool, Sequence[str], None]
_DURATION, _PERMISSIONS = 3, 8  # enum lockshm_option_kind


def _text(name: str, value: Option) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    kind = option_kinds.get(name)
    if isinstance(value, (int, float)) and kind == _DURATION:
        return f"{value:.9f}s"
    if isinstance(value, (int, float)):
        return f"{value:o}" if kind == _PERMISSIONS and isinstance(value, int) else str(value)
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    raise TypeError(f"{name} must be str, int, float, bool, or a list of str, not {type(value)}")


def open(name: str, *, create: bool = True, any_owner: bool = False, **options: Option) -> Locks:
    """Open the segment of that name, made if there is none (create=False: NoSegment instead).

    Name it by application: every program of the host that opens the name shares its locks.  any_owner accepts a segment
    that another user than this one or root made.  Usable in all threads, and in children made by fork().

    Options are those of ``lockctl create --help``, with _ for -: keys=100_000, permissions=0o660,
    redis=["redis://10.0.0.5"], redis_ttl=10 (seconds), redis_quorum=True.  They count for a segment that this call makes,
    and are ignored for one that exists: to change them let all programs that use it end, remove it (lockctl rm NAME, or
    destroy()), and open it again.  What concerns Redis is for keys that exclude other hosts, too (global_=True, or
    global_keys); it is to be the same on all hosts, and a lockshm-bridge must run on each.
    """
    given = {word: _text(word, value) for word, value in options.items() if value is not None}
    return Locks(name, create=create, any_owner=any_owner, **given)
