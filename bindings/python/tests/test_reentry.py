# SPDX-License-Identifier: MIT
"""What enters twice, and what is left by another thread or task than entered: the object counts only where it is asked to."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import lockshm
from conftest import fork, until, waiters


def in_thread(function):
    """Run it in a thread of its own; returns its result, or the exception."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(function)
        return future.exception() or future.result()


def test_the_default_is_that_of_threading_lock(locks):
    lock = locks.exclusive("report", timeout=0.01)
    assert not lock.reentrant
    with lock:
        assert lock.acquire(blocking=False) is False and lock.acquire(timeout=0.01) is False
        with pytest.raises(lockshm.Timeout, match="by this lock object, which was not made with reentrant=True"):
            lock.acquire()
        assert lock.count == 1
    assert not locks.locked("report")


def test_jobs_that_a_thread_starts_and_others_release(locks):
    """acquire(), then a job in another thread that releases it at its end: one job at a time."""
    lock, inside, most = locks.exclusive("report", timeout=None), [], []

    def job():
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.01)
        inside.pop()
        lock.release()

    threads = []
    for _ in range(5):
        lock.acquire()
        threads.append(threading.Thread(target=job))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert most == [1] * 5 and not locks.locked("report")


def test_a_pool_thread_that_serves_two_requests(locks):
    """The first is left by another thread, as a dependency of a web framework is."""
    lock = locks.exclusive("report")
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        assert one.submit(lock.acquire).result()
        assert one.submit(lock.acquire, False).result() is False
        other.submit(lock.release).result()
        assert one.submit(lock.acquire, False).result() is True
        other.submit(lock.release).result()
    assert not locks.locked("report")


def test_a_generator_that_is_resumed_in_another_thread(locks):
    lock = locks.exclusive("report")

    def dependency():
        with lock:
            yield

    running = dependency()
    in_thread(lambda: next(running))
    assert in_thread(lambda: next(dependency()) if lock.acquire(False) else "busy") == "busy"
    assert isinstance(in_thread(lambda: next(running)), (StopIteration, RuntimeError)) and not locks.locked("report")


def test_an_exit_stack_that_another_thread_closes(locks):
    stack = contextlib.ExitStack()
    stack.enter_context(locks.exclusive("report"))
    stack.enter_context(locks.shared("config"))
    in_thread(stack.close)
    assert not locks.locked("report") and not locks.locked("config")


def test_any_thread_releases_what_several_threads_hold(locks):
    lock = locks.shared("config")
    for _ in range(3):
        in_thread(lock.acquire)
    assert lock.count == 3
    for left in (2, 1, 0):
        lock.release()
        assert lock.count == left == len(locks.holders("config"))
    with pytest.raises(lockshm.NotOwned):
        lock.release()


def overrun(locks):
    """An object whose first hold, of another thread, was lost to its second one, of this thread."""
    lock = locks.exclusive("report", lease=0.05, renew=False, timeout=None)
    in_thread(lock.acquire)
    lock.acquire()
    return lock


def test_a_late_release_in_a_third_thread_does_not_end_the_hold_that_came_after(locks):
    lock = overrun(locks)
    lock.renew(30)
    error = in_thread(lock.release)
    assert isinstance(error, lockshm.Lost) and lock.held and locks.locked("report")
    lock.release()
    assert not locks.locked("report")


def test_a_thread_releases_its_own_hold_before_a_lost_one_of_another(locks):
    lock = overrun(locks)
    lock.release()
    assert not locks.locked("report")
    with pytest.raises(lockshm.Lost):
        lock.release()


def test_a_lost_hold_is_reported_by_the_next_acquire_of_its_thread(locks):
    lock = locks.exclusive("report", lease=0.02, renew=False)
    lock.acquire()
    with locks.exclusive("report", timeout=None):
        pass
    for call in (lock.acquire, lock.release):
        with pytest.raises(lockshm.Lost):
            call()
    with lock:
        pass


def test_on_lost_of_each_hold_of_a_shared_object(locks):
    """Neither the release nor the loss of one hold ends the watch of the others."""
    calls = []
    lock = locks.shared("config", lease=3, renew=False, on_lost=calls.append)
    for _ in range(3):
        in_thread(lock.acquire)
    lock.release()
    lock.renew(1)  # of the older one of the two
    with locks.exclusive("config", timeout=None):
        until(lambda: calls == [lock, lock])
    for _ in range(2):
        with pytest.raises(lockshm.Lost):
            lock.release()


# --- reentrant=True ----------------------------------------------------------------------------------------


def test_reentry_is_counted(locks):
    lock = locks.exclusive("report", reentrant=True)
    assert lock.reentrant
    with lock:
        token = lock.token
        with lock:
            assert lock.acquire() and lock.count == 3 and lock.token == token
            lock.release()
        assert lock.held and lock.count == 1
        assert in_thread(lambda: lock.acquire(False)) is False
    assert not locks.locked("report")


def test_any_thread_counts_down(locks):
    lock = locks.exclusive("report", reentrant=True)
    lock.acquire()
    lock.acquire()
    in_thread(lock.release)
    assert lock.count == 1
    in_thread(lock.release)
    assert not locks.locked("report")


def test_a_shared_object_counts_for_each_thread(locks):
    lock = locks.shared("config", reentrant=True)
    with lock, lock:
        assert lock.count == 2 and in_thread(lock.acquire) is True
        assert len(locks.holders("config")) == 2
    in_thread(lock.release)
    assert not locks.locked("config")


@pytest.mark.parametrize("plain", [False, True], ids=["async with", "with"])
def test_reentry_of_tasks(locks, plain):
    """Of one event loop, so of one thread: also a plain with is the task's."""
    lock, refused = locks.exclusive("report", reentrant=True, timeout=0), []

    @contextlib.asynccontextmanager
    async def entered():
        if plain:
            with lock:
                yield
        else:
            async with lock:
                yield

    async def work():
        try:
            async with entered(), entered():
                assert lock.count == 2
                await asyncio.sleep(0)
        except lockshm.Busy as error:
            refused.append(error)

    async def main():
        await asyncio.gather(work(), work())

    asyncio.run(main())
    assert len(refused) == 1 and not locks.locked("report")


def test_with_and_async_with_of_one_task(locks):
    lock = locks.exclusive("report", reentrant=True, timeout=0)

    async def main():
        with lock:
            async with lock:
                assert lock.count == 2
        async with lock:
            with lock:
                assert lock.count == 2

    asyncio.run(main())
    assert not locks.locked("report")


def test_greenlets(locks):
    greenlet = pytest.importorskip("greenlet")
    for reentrant in (False, True):
        lock, seen = locks.exclusive("report", reentrant=reentrant), []
        other = greenlet.greenlet(lambda: seen.append(lock.acquire(False)))
        with lock:
            other.switch()
        assert seen == [False]


# --- threading.Condition -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_condition(locks, reentrant):
    lock = locks.exclusive("queue", reentrant=reentrant, timeout=0.01)
    ready, items, got = threading.Condition(lock), [], []

    def consume():
        with ready:
            if reentrant:
                lock.acquire()
            while not items:
                ready.wait()
            got.append(items.pop())
            if reentrant:
                assert lock.count == 2
                lock.release()

    thread = threading.Thread(target=consume)
    thread.start()
    until(lambda: ready._waiters)
    with ready:
        items.append(1)
        ready.notify()
        until(lambda: waiters(locks, "queue"))
        threading.Event().wait(0.05)  # longer than the object's time-out, which does not count here
    thread.join()
    assert got == [1] and not locks.locked("queue")
    with pytest.raises(RuntimeError, match="un-acquired"):
        ready.wait()
    with pytest.raises(RuntimeError, match="un-acquired"):
        ready.notify()


def test_condition_is_not_owned_by_another_process(locks, holder):
    holder("queue")
    with pytest.raises(RuntimeError, match="un-acquired"):
        threading.Condition(locks.exclusive("queue")).notify()


# --- fork() in between -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_entered_before_a_fork_and_left_after(locks, reentrant):
    lock = locks.exclusive("report", reentrant=reentrant)
    with lock:

        def run():
            assert not lock.held and lock.count == 0
            with pytest.raises(lockshm.NotOwned, match="the hold is that of its parent"):
                lock.release()
            assert lock.acquire(blocking=False) is False

        assert fork(run) == 0 and lock.held
    assert not locks.locked("report")
