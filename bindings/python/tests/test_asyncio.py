# SPDX-License-Identifier: MIT
"""Event loops: many waits, cancellation at every point, loops in threads."""

import asyncio
import gc
import os
import sys
import threading

import pytest

import lockshm
from conftest import until, waiters


async def until_async(condition):
    while not condition():
        await asyncio.sleep(0)


def test_async_with_on_the_same_object(locks):
    lock = locks.exclusive("report")

    async def main():
        async with lock as hold:
            assert hold is lock and lock.held and lock.count == 1
        assert not lock.held

    asyncio.run(main())
    with lock:
        assert lock.held


def test_ten_thousand_waits_in_one_loop_on_one_key(locks):
    granted, inside = [], []

    async def work(number):
        async with locks.exclusive("report", timeout=None):
            inside.append(number)
            assert len(inside) == 1
            if number % 100 == 0:
                await asyncio.sleep(0)
            granted.append(inside.pop())

    async def main():
        async with locks.exclusive("report"):
            tasks = [asyncio.create_task(work(number)) for number in range(10_000)]
            await until_async(lambda: len(waiters(locks, "report")) == 10_000)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert granted == list(range(10_000)) and not locks.holders("report")
    assert locks.stat()["requests_used"] == 0


def test_one_object_in_many_tasks_excludes_them(locks):
    lock, counter = locks.exclusive("report", timeout=None), [0]

    async def work():
        async with lock:
            value = counter[0]
            await asyncio.sleep(0)
            counter[0] = value + 1

    async def main():
        await asyncio.gather(*(work() for _ in range(200)))

    asyncio.run(main())
    assert counter == [200] and lock.count == 0 and not locks.locked("report")


def test_a_wait_does_not_block_the_loop(locks):
    async def main():
        ticks = 0
        async with locks.exclusive("report"):
            lock = locks.exclusive("report", timeout=None)
            task = asyncio.create_task(lock.acquire_async())
            while ticks < 1000:
                await asyncio.sleep(0)
                ticks += 1
            assert not task.done() and len(waiters(locks, "report")) == 1
        assert await task is True
        lock.release()

    asyncio.run(main())


def test_an_endless_wait_for_a_strict_hold(locks):
    async def main():
        lock = locks.exclusive("report", timeout=None, lease=None)
        async with locks.exclusive("report"):
            task = asyncio.create_task(lock.acquire_async())
            await until_async(lambda: waiters(locks, "report"))
        assert await task and lock.remaining == float("inf")
        lock.release()

    asyncio.run(main())


def test_timeout_and_busy(locks):
    async def main():
        async with locks.exclusive("report", tag="nightly"):
            with pytest.raises(lockshm.Timeout, match="not granted in 0.05 s: held exclusive .* 'nightly'") as refused:
                async with locks.exclusive("report", timeout=0.05):
                    pass
            assert refused.value.holder.pid == os.getpid()
            with pytest.raises(lockshm.Busy, match="not free"):
                await locks.exclusive("report", timeout=0).acquire_async()
            lock = locks.exclusive("report")
            assert await lock.acquire_async(blocking=False) is False
            assert await lock.acquire_async(timeout=0.01) is False and lock.holder.tag == "nightly"
        assert await lock.acquire_async(True, 1) is True
        lock.release()
        with pytest.raises(ValueError, match="blocking=False"):
            await lock.acquire_async(False, 5)
        with pytest.raises(TypeError, match="patience"):
            await lock.acquire_async(patience=5)

    asyncio.run(main())


def test_an_exception_in_the_body_is_not_replaced(locks):
    async def main():
        lock = locks.exclusive("report")
        with pytest.raises(KeyError):
            async with lock:
                lock.release()
                raise KeyError
        with pytest.raises(lockshm.NotOwned):
            async with lock:
                lock.release()

    asyncio.run(main())


def test_a_task_releases_what_another_acquired(locks):
    async def main():
        lock = locks.exclusive("report")
        await asyncio.create_task(lock.acquire_async())
        assert lock.held
        lock.release()
        assert await asyncio.wait_for(lock.acquire_async(), 60)
        lock.release()

    asyncio.run(main())
    assert not locks.locked("report")


# --- Cancellation ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("released", ["before", "after", "never"])
def test_cancel_after_so_many_turns_of_the_loop(locks, turns, released):
    """The task starts, waits, is granted, wakes up, works, leaves: cancelled at each of these points, and around the grant."""

    async def work():
        async with locks.exclusive("report", timeout=None):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def main():
        lock = locks.exclusive("report")
        await lock.acquire_async()
        task = asyncio.create_task(work())
        if released != "never":
            await until_async(lambda: waiters(locks, "report"))
        if released == "before":
            lock.release()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        if released == "after":
            lock.release()
        await asyncio.wait([task])  # cancelled, unless it had come to its end
        if released == "never":
            assert len(locks.holders("report")) == 1
            lock.release()
        assert not locks.holders("report")
        async with locks.exclusive("report", timeout=0):
            pass

    asyncio.run(main())


def test_cancel_between_the_grant_and_the_wake_up(locks):
    """The outcome is collected, the future has its result, and the task is cancelled before it runs."""
    from lockshm import _aio

    async def main():
        lock = locks.exclusive("report")
        await lock.acquire_async()
        task = asyncio.create_task(locks.exclusive("report", timeout=None).acquire_async())
        await until_async(lambda: waiters(locks, "report"))
        lock.release()
        _aio._drain(_aio._loops[asyncio.get_running_loop()][locks])
        assert locks.locked("report") and not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not locks.holders("report")

    asyncio.run(main())


def test_cancel_many_in_the_middle_of_the_queue(locks):
    async def main():
        granted = []

        async def work(number):
            async with locks.exclusive("report", timeout=None):
                granted.append(number)

        async with locks.exclusive("report"):
            tasks = [asyncio.create_task(work(number)) for number in range(100)]
            await until_async(lambda: len(waiters(locks, "report")) == 100)
            for task in tasks[::2]:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert granted == list(range(1, 100, 2)) and not locks.holders("report")

    asyncio.run(main())


def test_wait_for_and_the_end_of_the_loop(locks):
    """wait_for() cancels; asyncio.run() cancels what is left, and closes the loop."""
    tasks = []

    async def main():
        async with locks.exclusive("report"):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(locks.exclusive("report", timeout=None).acquire_async(), 0.01)
            assert len(locks.holders("report")) == 1

    async def leave():
        lock = locks.exclusive("report")
        await lock.acquire_async()
        tasks.append(asyncio.create_task(locks.exclusive("report", timeout=None).acquire_async()))
        await until_async(lambda: waiters(locks, "report"))
        lock.release()

    asyncio.run(main())
    asyncio.run(leave())
    assert tasks[-1].cancelled() or tasks[-1].done()
    tasks.clear()
    gc.collect()
    assert not waiters(locks, "report")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_is_dropped_with_waits(locks):
    """Without asyncio.run(): the tasks are never cancelled; the next use of another loop ends their waits."""
    with locks.exclusive("report"):
        loop = asyncio.new_event_loop()
        task = loop.create_task(locks.exclusive("report", timeout=None).acquire_async())
        loop.call_soon(loop.call_later, 0.01, loop.stop)
        loop.run_forever()
        assert len(waiters(locks, "report")) == 1
        loop.close()
        task._log_destroy_pending = False
        del task, loop

        async def main():
            async with locks.exclusive("other"):
                pass

        asyncio.run(main())
        gc.collect()
        assert not waiters(locks, "report")


# --- Several loops -----------------------------------------------------------------------------------------


def test_loops_in_threads_share_the_queue(locks):
    counter, errors = [0], []

    async def work():
        for _ in range(50):
            async with locks.exclusive("report", timeout=None):
                value = counter[0]
                await asyncio.sleep(0)
                counter[0] = value + 1

    async def main():
        await asyncio.gather(*(work() for _ in range(4)))

    def run():
        try:
            asyncio.run(main())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and counter == [800]


def test_one_event_loop_for_each_request_in_threads(locks):
    """asyncio.run() again and again, in many threads: each opens a loop and forgets those that are closed; with on_lost, too."""
    errors, started = [], threading.Barrier(8)

    async def request(number):
        async with locks.shared("report", on_lost=print), locks.exclusive(f"own {number}"):
            await asyncio.sleep(0)

    def run(number):
        started.wait()
        try:
            for _ in range(60):
                asyncio.run(request(number))
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors and not locks.holders("report")


def test_a_loop_that_another_thread_opens_while_this_one_looks_for_closed_ones(locks):
    """At the very moment at which the table is gone through."""
    errors, armed = [], []

    async def request():
        async with locks.exclusive("report", timeout=None):
            pass

    def run():
        try:
            asyncio.run(request())
        except BaseException as error:
            errors.append(error)

    class Looked(asyncio.SelectorEventLoop):
        def is_closed(self):
            while armed:
                armed.pop()
                thread = threading.Thread(target=run)
                thread.start()
                thread.join()
            return super().is_closed()

    events = Looked()
    events.run_until_complete(request())
    armed.append(1)
    run()
    events.close()
    assert not errors and not armed


def test_threads_and_tasks_share_the_queue(locks):
    order = []

    def thread_work():
        with locks.exclusive("report", timeout=None):
            order.append("thread")

    async def task_work():
        async with locks.exclusive("report", timeout=None):
            order.append("task")

    async def main():
        async with locks.exclusive("report"):
            tasks = []
            for number in range(3):
                thread = threading.Thread(target=thread_work)
                thread.start()
                await until_async(lambda: len(waiters(locks, "report")) == 2 * number + 1)
                tasks.append(asyncio.create_task(task_work()))
                await until_async(lambda: len(waiters(locks, "report")) == 2 * number + 2)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    until(lambda: len(order) == 6)
    assert order == ["thread", "task"] * 3


def test_a_killed_holder_lets_the_next_task_go_on(locks, holder):
    one = holder("report")

    async def main():
        lock = locks.exclusive("report", timeout=None)
        task = asyncio.create_task(lock.acquire_async())
        await until_async(lambda: waiters(locks, "report"))
        one.kill()
        assert await task
        lock.release()

    asyncio.run(main())
