# SPDX-License-Identifier: MIT
"""What is measured.  Each function gives the samples of one round in seconds, or a dictionary of figures."""

import asyncio
import contextlib
import ctypes
import gc
import multiprocessing
import os
import random
import signal
import time

_fork = multiprocessing.get_context("fork")
WAIT = 0.02
"""Shortest time for which a lock is held before its hand-over; up to twice as long, at random."""
PROCESSES = 8


def die_with_parent():
    """For a child, right after its fork."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _run_child(connection, work, arguments):
    die_with_parent()
    work(connection, *arguments)


@contextlib.contextmanager
def _child(work, *arguments):
    """A process that runs work(connection, ...); gives the other end of the connection and the process."""
    here, there = _fork.Pipe()
    process = _fork.Process(target=_run_child, args=(there, work, arguments), daemon=True)
    process.start()
    there.close()
    try:
        yield here, process
    finally:
        process.kill()
        process.join()
        here.close()


def _per_pair(one, other, n):
    """The mean of n calls of both, in a loop without anything else."""
    numbers = range(n)
    gc.disable()
    start = time.perf_counter()
    for _ in numbers:
        one()
        other()
    took = time.perf_counter() - start
    gc.enable()
    return took / n


def free_pair(kind):
    return [_per_pair(kind.acquire, kind.release, kind.pairs) for _ in range(5)]


def free_pair_plain(kind):
    """With a lease that is not renewed; of lockshm only."""
    return [_per_pair(kind.plain.acquire, kind.plain.release, kind.pairs) for _ in range(5)]


def free_with(kind):
    lock, numbers = kind.lock, range(kind.pairs)
    gc.disable()
    start = time.perf_counter()
    for _ in numbers:
        with lock:
            pass
    took = time.perf_counter() - start
    gc.enable()
    return [took / kind.pairs]


def empty_calls():
    """Two calls of a C function without arguments: what Python itself needs for a pair."""
    return [_per_pair(gc.isenabled, gc.isenabled, 20000) for _ in range(5)]


def _waiter(connection, kind):
    while connection.recv():
        granted = kind.acquire_within(5)
        connection.send(time.monotonic() if granted else None)
        if granted:
            kind.release()


def _waiter_async(connection, kind):
    async def run():
        while connection.recv():
            await kind.acquire_async()
            connection.send(time.monotonic())
            await kind.release_async()

    asyncio.run(run())


def _hand_over(kind, waiter, n):
    samples = []
    with _child(waiter, kind) as (connection, _):
        for _ in range(n):
            kind.acquire()
            connection.send(True)
            time.sleep(WAIT * random.uniform(1, 2))
            released = time.monotonic()
            kind.release()
            samples.append(connection.recv() - released)
    return samples


def hand_over(kind, n=10):
    """From the release in one process until the waiter in another runs."""
    return _hand_over(kind, _waiter, n)


def hand_over_async(kind, n=10):
    """The same; the waiter is a task of an event loop."""
    return _hand_over(kind, _waiter_async, n)


def hand_over_tasks(kind):
    """From the release in one task until another one of the same event loop runs."""
    samples = []

    async def wait():
        await kind.acquire_async()
        samples.append(time.monotonic())
        await kind.release_async()

    async def run():
        for _ in range(kind.tasks):
            await kind.acquire_async()
            task = asyncio.ensure_future(wait())
            await asyncio.sleep(0.0005)
            released = time.monotonic()
            await kind.release_async()
            await task
            samples[-1] -= released

    asyncio.run(run())
    return samples


def _holder(connection, kind):
    kind.acquire()
    connection.send(True)
    signal.pause()


def holder_killed(kind, n=2):
    """From the SIGKILL of the holder until the next one runs; None = not within 5 s."""
    samples = []
    with _child(_waiter, kind) as (waiter, _):
        for _ in range(n):
            with _child(_holder, kind) as (holder, process):
                holder.recv()
                waiter.send(True)
                time.sleep(WAIT)
                killed = time.monotonic()
                os.kill(process.pid, signal.SIGKILL)
                granted = waiter.recv()
                samples.append(granted and granted - killed)
            if not granted:
                break
    return samples


def _contender(connection, kind, seconds):
    start = connection.recv()
    time.sleep(max(0.0, start - time.monotonic()))  # all at the same time
    pairs, longest, now = 0, 0.0, time.monotonic()
    while now < start + seconds:
        kind.acquire()
        granted = time.monotonic()
        kind.release()
        pairs += 1
        longest = max(longest, granted - now)
        now = time.monotonic()
    connection.send((pairs, longest))


def contended(kind, seconds=0.5):
    """Processes that take the lock again and again: holds a second, longest wait, share of the least served process."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(_child(_contender, kind, seconds))[0] for _ in range(PROCESSES)]
        start = time.monotonic() + 0.1
        for connection in connections:
            connection.send(start)
        results = [connection.recv() for connection in connections]
    pairs = [result[0] for result in results]
    return {"rate": sum(pairs) / seconds, "longest": max(result[1] for result in results),
            "least": min(pairs) / (sum(pairs) / PROCESSES)}  # fmt: skip
