# SPDX-License-Identifier: MIT
"""Over 10^5 locks (LONG=1: 10^6): memory, descriptors, records of the segment, references."""

import asyncio
import gc
import os
import sys
import threading

import pytest

from conftest import LONG, fork

ROUNDS = 1_000_000 if LONG else 100_000


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def use(locks, n, on_lost):
    """Every way that makes, takes, refuses and drops lock objects."""
    shared = locks.exclusive("shared", reentrant=True)
    for number in range(n // 6):
        key = f"key {number % 5000}"
        with locks.exclusive(key, renew=False):
            locks.exclusive(key).acquire(blocking=False)
        with shared, shared:
            try:
                locks.exclusive("shared", timeout=0).acquire()
            except TimeoutError as error:
                assert error.holder
        with locks.shared(key.encode(), tag="tag"), locks.shared(key):
            pass
        try:
            locks.exclusive(key).release()
        except RuntimeError:
            pass
        try:
            locks.exclusive(key, lease=-1)
        except ValueError:
            pass
        if number % 20 == 0:
            with locks.exclusive(key, on_lost=on_lost) as hold:
                assert hold.token and hold.remaining and hold.check() and repr(hold)


async def use_async(locks, n):
    one = locks.exclusive("tasks", timeout=None)

    async def work(number):
        async with one if number % 2 else locks.exclusive("tasks", timeout=None):
            await asyncio.sleep(0)

    for _ in range(n // 100):
        tasks = [asyncio.create_task(work(number)) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def use_threads(locks, n):
    one = locks.exclusive("threads", timeout=None)

    def work():
        for number in range(n // 400):
            with one if number % 2 else locks.exclusive("threads", timeout=None):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("kind", ["locks", "tasks", "threads"])
def test_nothing_is_left(locks, kind):
    objects = (locks, "tag", None, locks.exclusive("a").__class__)

    def on_lost(lock):
        pass

    def run(n):
        if kind == "locks":
            use(locks, n, on_lost)
        elif kind == "tasks":
            asyncio.run(use_async(locks, n))
        else:
            use_threads(locks, n)
        gc.collect()

    def counts():
        references = [sys.getrefcount(one) for one in (*objects, on_lost)]
        return len(os.listdir("/proc/self/fd")), sys.getallocatedblocks(), resident(), references

    run(20_000)
    before = counts()
    run(ROUNDS)
    after = counts()
    stat = locks.stat()
    assert (stat["requests_used"], stat["keys_busy"]) == (0, 0) and stat["owners_used"] <= 1
    assert after[0] <= before[0] and abs(after[1] - before[1]) < 500, (before, after)
    assert after[2] - before[2] < 8 << 20, (before, after)
    assert all(abs(now - then) < 500 for now, then in zip(after[3], before[3])), (before, after)


def test_segments_are_unmapped():
    import lockshm.testing

    def one():
        with lockshm.testing.private(keys=64) as locks, locks.exclusive("report"):
            pass
        with open("/proc/self/maps", encoding="ascii") as file:
            return sum("private." in row for row in file), len(os.listdir("/proc/self/fd"))

    one()
    gc.collect()
    before = one()
    for _ in range(50):
        one()
    gc.collect()
    assert one() == before


def test_forks_leave_no_descriptors(locks):
    """Each child opens a loop of its own; its parent's descriptors do not pile up in the grandchildren."""
    without = len(os.listdir("/proc/self/fd"))
    with locks.exclusive("report"):
        pass
    before = len(os.listdir("/proc/self/fd"))
    loop = before - without

    def descend(depth):
        def run():
            with locks.exclusive("report", timeout=None):
                count = len(os.listdir("/proc/self/fd"))
            assert count <= before + (depth + 1) * loop
            if depth < 4:
                descend(depth + 1)

        assert fork(run) == 0

    descend(0)
    for _ in range(20):
        descend(4)
    assert len(os.listdir("/proc/self/fd")) == before
