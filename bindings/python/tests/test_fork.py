# SPDX-License-Identifier: MIT
"""Children: os.fork, multiprocessing in its forms, a child of a thread.  A child holds nothing of its parent's."""

import asyncio
import gc
import multiprocessing
import threading

import pytest

import lockshm
from conftest import fork, until, waiters


def use(locks):
    """What a child does: its own threads' and tasks' requests work."""
    with locks.exclusive("own") as hold:
        assert hold.held and not locks.exclusive("own").acquire(blocking=False)

    async def main():
        async with locks.exclusive("own"):
            task = asyncio.create_task(locks.exclusive("own").acquire_async(timeout=0.01))
            assert await task is False

    asyncio.run(main())


def refused(locks):
    lock = locks.exclusive("parent")
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(timeout=0.01) is False
    assert lock.holder.pid


def test_a_child_owns_nothing(locks):
    lock = locks.exclusive("parent")
    lock.acquire()

    def run():
        assert not lock.held and lock.count == 0 and lock.remaining == 0.0 and lock.locked()
        for call in (lock.release, lock.check, lock.renew):
            with pytest.raises(lockshm.NotOwned):
                call()
        assert lock.acquire(blocking=False) is False
        refused(locks)
        use(locks)

    assert fork(run) == 0
    assert lock.held
    lock.release()


def test_release_in_the_child_is_refused_and_harms_nothing(locks):
    lock = locks.exclusive("parent")
    lock.acquire()

    def run():
        for call in (lock.check, lock.release, lock.release, lambda: lock.token):
            with pytest.raises(lockshm.NotOwned, match="'parent': not held by this process: the hold is that of its parent"):
                call()

    assert fork(run) == 0
    assert lock.held
    lock.release()


def test_the_end_of_a_with_block_in_the_child(locks):
    with locks.exclusive("parent") as lock:
        assert fork(lambda: pytest.raises(lockshm.NotOwned, lock.__exit__, None, None, None)) == 0
        assert lock.held


def test_the_garbage_collector_of_a_child_releases_nothing(locks):
    box = [locks.exclusive("parent")]
    box[0].acquire()

    def run():
        box.clear()
        gc.collect()
        assert locks.locked("parent")

    assert fork(run) == 0
    assert box[0].held
    box[0].release()


def test_the_same_object_in_parent_and_child(locks):
    """As after gunicorn --preload: made before the fork, used on both sides."""
    lock = locks.exclusive("both", timeout=None)
    with lock:
        pass
    results = []
    for _ in range(3):
        with lock:
            results.append(fork(lambda: lock.acquire(blocking=False) and pytest.fail("granted twice")))

        def run():
            with lock:
                assert lock.held and lock.count == 1

        results.append(fork(run))
    assert results == [0] * 6


def test_grandchildren(locks):
    def run():
        use(locks)
        assert fork(lambda: use(locks)) == 0
        use(locks)

    assert fork(run) == 0
    use(locks)


def test_fork_while_a_thread_waits(locks):
    with locks.exclusive("parent"):
        granted = []
        waiting = locks.exclusive("parent", timeout=None)
        thread = threading.Thread(target=lambda: granted.append(waiting.acquire()))
        thread.start()
        until(lambda: waiters(locks, "parent"))
        assert fork(lambda: (refused(locks), use(locks), waiting.cancel())) == 0
        assert len(waiters(locks, "parent")) == 1
    thread.join()
    assert granted == [True]
    waiting.release()


def test_fork_while_tasks_wait(locks):
    async def main():
        async with locks.exclusive("parent"):
            lock = locks.exclusive("parent", timeout=None)
            task = asyncio.create_task(lock.acquire_async())
            while not waiters(locks, "parent"):
                await asyncio.sleep(0)
            status = await asyncio.get_running_loop().run_in_executor(None, fork, lambda: use(locks))
            assert status == 0 and len(waiters(locks, "parent")) == 1
        assert await task
        lock.release()

    asyncio.run(main())


def test_an_event_loop_that_was_made_before_the_fork(locks):
    loop = asyncio.new_event_loop()

    async def main():
        async with locks.exclusive("own"):
            lock = locks.exclusive("own", timeout=None)
            task = loop.create_task(lock.acquire_async())
            while not waiters(locks, "own"):
                await asyncio.sleep(0)
        assert await task
        lock.release()

    loop.run_until_complete(main())
    assert fork(lambda: loop.run_until_complete(main())) == 0
    loop.close()


def test_a_child_of_a_thread(locks):
    lock, status = locks.exclusive("parent"), []
    with lock:
        thread = threading.Thread(target=lambda: status.append(fork(lambda: (refused(locks), use(locks)))))
        thread.start()
        thread.join()
        assert lock.held
    assert status == [0]


def count_up(locks, path, rounds):
    """For multiprocessing: a counter in a file that is read and written apart."""
    lock = locks.exclusive("counter", timeout=None)
    for _ in range(rounds):
        with lock:
            with open(path, encoding="utf-8") as file:
                value = int(file.read())
            with open(path, "w", encoding="utf-8") as file:
                file.write(str(value + 1))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(locks, tmp_path, method):
    path = tmp_path / "counter"
    path.write_text("0")
    context = multiprocessing.get_context(method)
    with locks.exclusive("parent"):
        processes = [context.Process(target=count_up, args=(locks, path, 50)) for _ in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert path.read_text() == "200" and not locks.locked("counter")


def test_a_pool(locks, tmp_path):
    path = tmp_path / "counter"
    path.write_text("0")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.starmap(count_up, [(locks, path, 10)] * 9)
    assert path.read_text() == "90"


def test_on_lost_in_a_child(locks):
    """Its watcher is its own, and the parent's hold is none of its business."""
    parent = []
    lock = locks.exclusive("parent", lease=0.02, renew=False, on_lost=parent.append)
    lock.acquire()

    def run():
        child = []
        own = locks.exclusive("own", lease=0.02, renew=False, on_lost=child.append)
        own.acquire()
        with locks.exclusive("own", timeout=None):
            until(lambda: child == [own])
        assert not parent

    assert fork(run) == 0
    with locks.exclusive("parent", timeout=None):
        until(lambda: parent == [lock])
    with pytest.raises(lockshm.Lost):
        lock.release()
