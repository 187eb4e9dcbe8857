# SPDX-License-Identifier: MIT
"""Keyed, fair, crash-proof read-write locks of the processes of one host.

    locks = lockshm.open("shop")
    with locks.exclusive("report", timeout=5) as hold:
        ...

A hold belongs to the process: any thread or task may release it, and it ends with the process, however that ends.
"""

from __future__ import annotations

from typing import Any, Optional

from ._lockshm import Lock, destroy, library_version
from ._recipes import Locks, Once
from ._seat import Seat, SeatTask
from ._report import (
    BadSegment,
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
    Previous,
    SystemFailure,
    Timeout,
)

__version__ = "0.1.0"

__all__ = [
    "BadSegment",
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
    "NoSegment",
    "NotOwned",
    "Once",
    "Previous",
    "Seat",
    "SeatTask",
    "SystemFailure",
    "Timeout",
    "destroy",
    "library_version",
    "open",
]


def open(
    name: str,
    *,
    create: bool = True,
    any_owner: bool = False,
    locks: Optional[int] = None,
    requests: Optional[int] = None,
    owners: Optional[int] = None,
    mode: Optional[int] = None,
) -> Locks:
    """Open the segment of that name, made if there is none (create=False: NoSegment instead).

    Name it by application: every program of the host that opens the name shares its locks.  Capacities: locks = keys in
    use at once (16384), requests = holds plus waits at once (16384), owners = threads and processes (1024), rounded up.
    They and mode = permission bits (0o600) count for a segment that this call makes, and are ignored for one that
    exists: to change them let all programs that use it end, remove it (lockctl rm NAME, or destroy()), and open it again.
    any_owner accepts a segment that another user than this one or root made.  Usable in all threads, and in children
    made by fork().
    """
    given: dict[str, Any] = {"locks": locks, "requests": requests, "owners": owners, "mode": mode}
    sizes = {word: value for word, value in given.items() if value is not None}
    return Locks(name, create=create, any_owner=any_owner, **sizes)
