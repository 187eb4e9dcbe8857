# SPDX-License-Identifier: MIT
"""Keyed, fair, crash-proof read-write locks of the processes of one host.

    locks = lockshm.open("shop")
    with locks.exclusive("report", timeout=5) as hold:
        ...

A hold belongs to the process: any thread or task may release it, and it ends with the process, however that ends.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

from ._lockshm import Lock, destroy, library_version
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
    Previous,
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


def _list(texts: Union[str, Sequence[str], None]) -> Optional[str]:
    return texts if texts is None or isinstance(texts, str) else ",".join(texts)


def open(
    name: str,
    *,
    create: bool = True,
    any_owner: bool = False,
    locks: Optional[int] = None,
    requests: Optional[int] = None,
    owners: Optional[int] = None,
    permissions: Optional[int] = None,
    redis: Union[str, Sequence[str], None] = None,
    redis_ttl: Optional[float] = None,
    redis_policy: Optional[str] = None,
    redis_prefix: Optional[str] = None,
    redis_quorum: Optional[bool] = None,
    redis_gap: Optional[float] = None,
    redis_retain: Optional[float] = None,
    host_leases: Optional[int] = None,
    redis_wait: Optional[int] = None,
    global_keys: Union[str, Sequence[str], None] = None,
) -> Locks:
    """Open the segment of that name, made if there is none (create=False: NoSegment instead).

    Name it by application: every program of the host that opens the name shares its locks.  Capacities: locks = keys in
    use at once (16384), requests = holds plus waits at once (16384), owners = threads and processes (1024), rounded up.
    They and permissions (0o600) count for a segment that this call makes, and are ignored for one that
    exists: to change them let all programs that use it end, remove it (lockctl rm NAME, or destroy()), and open it again.
    redis = URI of a Redis server, or several of them, for keys that exclude other hosts, too (global_=True); a
    lockshm-bridge must run on each host.  The rest of redis_* is as lockctl create --redis-*: ttl = seconds until the
    lease of a dead host ends (10), policy = "fail" or "wait" while Redis is out of reach, prefix of the keys there ("lk:"),
    quorum = a majority of independent servers decides, gap = seconds for which a busy key stays free for programs that
    poll it, retain = seconds for which an unused lease stays, leases = such keys in use at once (1024), wait = replicas
    that must have a lease.  global_keys = "*", or prefixes of keys, that exclude other hosts in each request, without
    global_.  These count for a segment that is made, too, and are to be the same on all hosts.
    any_owner accepts a segment that another user than this one or root made.  Usable in all threads, and in children
    made by fork().
    """
    given: dict[str, Any] = {
        "locks": locks,
        "requests": requests,
        "owners": owners,
        "permissions": permissions,
        "redis": _list(redis),
        "redis_ttl": redis_ttl,
        "redis_policy": redis_policy,
        "redis_prefix": redis_prefix,
        "redis_quorum": redis_quorum,
        "redis_gap": redis_gap,
        "redis_retain": redis_retain,
        "host_leases": host_leases,
        "redis_wait": redis_wait,
        "global_keys": _list(global_keys),
    }
    options = {word: value for word, value in given.items() if value is not None}
    return Locks(name, create=create, any_owner=any_owner, **options)
