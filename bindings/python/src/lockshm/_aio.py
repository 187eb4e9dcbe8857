# SPDX-License-Identifier: MIT
"""Requests of asyncio tasks: one Loop for each event loop and segment, opened at its first use in a process."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Any, Optional
from weakref import WeakKeyDictionary

from ._lockshm import Lock, Loop, Segment
from ._watch import call

_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Segment, Loop]] = WeakKeyDictionary()
_tasks: set[asyncio.Future[Any]] = set()


def _forget() -> None:
    """After fork() the loops are the parent's."""
    _loops.clear()
    _tasks.clear()


os.register_at_fork(after_in_child=_forget)


def _keep(task: asyncio.Future[Any]) -> None:
    """An event loop has weak references to its tasks."""
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _lost(lock: Lock) -> None:
    task = call(lock) if lock._tell_lost() else None
    if asyncio.iscoroutine(task):
        _keep(asyncio.ensure_future(task))


def _drain(loop: Loop) -> None:
    for outcome in loop.drain():
        if isinstance(outcome, Lock):  # after the task that is woken for the same hold
            asyncio.get_running_loop().call_soon(_lost, outcome)
        elif outcome.future is not None and not outcome.future.done():
            outcome.future.set_result(None)


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
