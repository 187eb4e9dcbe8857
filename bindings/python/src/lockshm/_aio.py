# SPDX-License-Identifier: MIT
"""Requests of asyncio tasks: one Loop for each event loop and segment, opened at its first use in a process."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Any, Optional
from weakref import WeakKeyDictionary

from ._lockshm import Lock, Loop, Segment

_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Segment, Loop]] = WeakKeyDictionary()


def _forget() -> None:
    """After fork() the loops are the parent's."""
    _loops.clear()


os.register_at_fork(after_in_child=_forget)


def _drain(loop: Loop) -> None:
    for wait in loop.drain():
        if wait.future is not None and not wait.future.done():
            wait.future.set_result(None)


def _forget_closed() -> None:
    """Other threads use the table meanwhile: over a copy that is made in one step."""
    for reference in _loops.keyrefs():
        events = reference()
        if events is not None and events.is_closed():
            _loops.pop(events, None)


def _open_loop(events: asyncio.AbstractEventLoop, segment: Segment) -> Loop:
    _forget_closed()
    loop = Loop(segment)
    events.add_reader(loop.fileno(), _drain, loop)
    _loops.setdefault(events, {})[segment] = loop
    return loop


async def acquire(lock: Lock, *args: Any, **kwargs: Any) -> bool:
    """Lock.acquire_async().  A task that is cancelled holds nothing, also if the grant came first."""
    events = asyncio.get_running_loop()
    segment = lock._segment
    try:
        loop = _loops[events][segment]
    except KeyError:
        loop = _open_loop(events, segment)
    wait = loop.request(lock, asyncio.current_task(), *args, **kwargs)
    if isinstance(wait, bool):
        return wait
    wait.future = events.create_future()
    try:
        await wait.future
        return wait.finish()
    finally:
        wait.abandon()


async def enter(lock: Lock) -> Lock:
    await acquire(lock)
    return lock


async def leave(
    lock: Lock,
    kind: Optional[type[BaseException]],
    value: Optional[BaseException],
    traceback: Optional[TracebackType],
) -> None:
    lock.__exit__(kind, value, traceback)
