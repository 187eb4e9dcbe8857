# SPDX-License-Identifier: MIT
"""The C part."""

from asyncio import Future
from types import TracebackType
from typing import Any, Callable, Literal, Optional, TypeVar, Union, final

from ._report import Holder, Key, Previous

_S = TypeVar("_S", bound="Segment")

library_version: str

def destroy(name: str) -> None: ...

@final
class Lock:
    @property
    def key(self) -> Key: ...
    @property
    def mode(self) -> Literal["exclusive", "shared"]: ...
    @property
    def timeout(self) -> float: ...
    @property
    def lease(self) -> float: ...
    @property
    def reentrant(self) -> bool: ...
    @property
    def held(self) -> bool: ...
    @property
    def local_only(self) -> bool: ...
    @property
    def token(self) -> int: ...
    @property
    def remaining(self) -> float: ...
    @property
    def count(self) -> int: ...
    @property
    def holder(self) -> Optional[Holder]: ...
    @property
    def previous(self) -> Optional[Previous]: ...
    @property
    def on_lost(self) -> Optional[Callable[[Lock], Any]]: ...
    @property
    def _segment(self) -> Segment: ...
    def acquire(
        self, blocking: bool = True, timeout: Optional[float] = ..., *, poll_interval: Optional[float] = ...
    ) -> bool: ...
    async def acquire_async(
        self, blocking: bool = True, timeout: Optional[float] = ..., *, poll_interval: Optional[float] = ...
    ) -> bool: ...
    def release(self, cooldown: float = 0.0) -> bool: ...
    def cancel(self) -> None: ...
    def locked(self) -> bool: ...
    def check(self) -> float: ...
    def renew(self, seconds: Optional[float] = None, /) -> bool: ...
    def extend(self, seconds: float, /) -> bool: ...
    def upgrade(self) -> bool: ...
    def downgrade(self) -> bool: ...
    def acknowledge(self) -> None: ...
    def _notify(self, fd: int, number: int, /) -> None: ...
    def _tell_lost(self) -> bool: ...
    def _release_save(self) -> int: ...
    def _acquire_restore(self, count: int, /) -> None: ...
    def _is_owned(self) -> bool: ...
    def __enter__(self) -> Lock: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
        /,
    ) -> None: ...
    async def __aenter__(self) -> Lock: ...
    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
        /,
    ) -> None: ...

class Segment:
    def __new__(
        cls,
        name: str,
        *,
        create: bool = True,
        any_owner: bool = False,
        locks: int = ...,
        requests: int = ...,
        owners: int = ...,
        permissions: int = ...,
        redis: Optional[str] = None,
        redis_ttl: float = ...,
        redis_policy: str = ...,
        redis_prefix: Optional[str] = None,
        redis_quorum: bool = False,
        redis_gap: float = ...,
        redis_retain: float = ...,
        host_leases: int = ...,
        redis_wait: int = ...,
        global_keys: Optional[str] = None,
    ) -> Segment: ...
    def __init__(
        self,
        name: str,
        *,
        create: bool = True,
        any_owner: bool = False,
        locks: int = ...,
        requests: int = ...,
        owners: int = ...,
        permissions: int = ...,
        redis: Optional[str] = None,
        redis_ttl: float = ...,
        redis_policy: str = ...,
        redis_prefix: Optional[str] = None,
        redis_quorum: bool = False,
        redis_gap: float = ...,
        redis_retain: float = ...,
        host_leases: int = ...,
        redis_wait: int = ...,
        global_keys: Optional[str] = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    def exclusive(
        self,
        key: Key,
        /,
        *,
        timeout: Optional[float] = 5.0,
        lease: Optional[float] = 30.0,
        renew: Optional[bool] = None,
        max_hold: Optional[float] = None,
        tag: Optional[str] = None,
        robust: bool = False,
        reentrant: bool = False,
        global_: bool = False,
        redis_policy: Optional[str] = None,
        on_lost: Optional[Callable[[Lock], Any]] = None,
    ) -> Lock: ...
    def shared(
        self,
        key: Key,
        /,
        *,
        timeout: Optional[float] = 5.0,
        lease: Optional[float] = 30.0,
        renew: Optional[bool] = None,
        max_hold: Optional[float] = None,
        tag: Optional[str] = None,
        robust: bool = False,
        reentrant: bool = False,
        global_: bool = False,
        redis_policy: Optional[str] = None,
        on_lost: Optional[Callable[[Lock], Any]] = None,
    ) -> Lock: ...
    def locked(self, key: Key, /) -> bool: ...
    def holders(self, key: Key, /) -> list[Holder]: ...
    def stat(self) -> dict[str, int]: ...
    def close(self) -> None: ...
    def __enter__(self: _S) -> _S: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
        /,
    ) -> None: ...

@final
class Wait:
    future: Optional[Future[None]]
    def finish(self) -> bool: ...
    def abandon(self) -> None: ...

@final
class Loop:
    def __new__(cls, segment: Segment, /) -> Loop: ...
    def __init__(self, segment: Segment, /) -> None: ...
    def request(self, lock: Lock, task: Any, /, *args: Any, **kwargs: Any) -> Union[bool, Wait]: ...
    def drain(self) -> list[Union[Wait, Lock]]: ...
    def fileno(self) -> int: ...
