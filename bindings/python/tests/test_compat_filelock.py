# SPDX-License-Identifier: MIT
"""compat.filelock: names, calls, defaults and errors of filelock, held against the package itself where it is installed."""

import asyncio
import gc
import inspect
import os
import pathlib
import pickle
import threading
import warnings

import pytest

import lockshm
from conftest import fork, waiters
from lockshm.compat import filelock as ours


@pytest.fixture
def path(locks, tmp_path, monkeypatch):
    monkeypatch.setattr(ours, "_segment_name", locks.name)
    yield tmp_path / "app.lock"
    ours._opened.pop(locks.name, None)


def test_with(path, locks):
    lock = ours.FileLock(path)
    with lock as entered:
        assert entered is lock and lock.is_locked and lock.lock_counter == 1
        assert locks.locked(os.fsencode(path)) and not path.exists()
        with lock:
            assert lock.lock_counter == 2
    assert not lock.is_locked and lock.lock_file == str(path)


def test_the_proxy_of_acquire_releases_and_does_not_acquire(path):
    lock = ours.FileLock(str(path), timeout=5)
    with lock.acquire(timeout=1, poll_interval=0.01) as entered:
        assert entered is lock and lock.lock_counter == 1
    assert not lock.is_locked


def test_timeout(path):
    with ours.FileLock(path):
        for lock, options in [
            (ours.FileLock(path, timeout=0), {}),
            (ours.FileLock(path), {"timeout": 0.01}),
            (ours.FileLock(path), {"blocking": False}),
            (ours.FileLock(path, blocking=False), {}),
        ]:
            with pytest.raises(ours.Timeout) as refused:
                lock.acquire(**options)
            assert refused.value.lock_file == str(path) and isinstance(refused.value, TimeoutError)
            assert f"'{path}' could not be acquired" in str(refused.value)
            assert f"pid {os.getpid()}" in str(refused.value) and refused.value.holder.mode == "exclusive"
    again = pickle.loads(pickle.dumps(refused.value))
    assert again.lock_file == refused.value.lock_file


def test_release_of_what_is_not_held_does_nothing(path):
    lock = ours.FileLock(path)
    lock.release()
    lock.acquire()
    lock.acquire()
    lock.release(force=True)
    assert not lock.is_locked
    lock.release(force=True)


def test_the_timeout_is_an_attribute(path):
    lock = ours.FileLock(path, 3)
    assert lock.timeout == 3.0
    lock.timeout = "0"
    with ours.FileLock(path), pytest.raises(ours.Timeout):
        lock.acquire()


def test_paths_of_one_file_are_one_lock(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with ours.FileLock(path):
        for other in ("app.lock", pathlib.Path("./app.lock"), "../" + tmp_path.name + "/app.lock"):
            with pytest.raises(ours.Timeout):
                ours.FileLock(other, timeout=0).acquire()


@pytest.mark.parametrize("thread_local", [True, False])
def test_another_thread(path, thread_local):
    lock = ours.FileLock(path, thread_local=thread_local)
    assert lock.is_thread_local() is thread_local
    lock.acquire()
    seen = []

    def work():
        seen.append(lock.is_locked)
        lock.release()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [not thread_local] and lock.is_locked is thread_local
    lock.release(force=True)


def test_every_thread_enters_without_thread_local(path):
    """As there: the count is the object's.  The last one out releases."""
    lock, entered = ours.FileLock(path, thread_local=False), threading.Event()

    def work():
        with lock:
            entered.set()

    with lock:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert entered.is_set() and lock.is_locked and lock.lock_counter == 1
    assert not lock.is_locked


def test_threads_exclude_each_other(path):
    lock, inside, most = ours.FileLock(path), [], []

    def work():
        for _ in range(50):
            with lock, lock:
                inside.append(1)
                most.append(len(inside))
                threading.Event().wait(0)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 200


def test_a_thread_that_ends_inside_is_reported_and_its_hold_ends(path, locks):
    lock = ours.FileLock(path)
    with pytest.warns(ResourceWarning, match="dropped while it was held"):
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
        gc.collect()
    assert not locks.locked(os.fsencode(path))


def test_decorator(path):
    lock = ours.FileLock(path)

    @lock
    def job(number):
        return number, lock.is_locked

    assert job(1) == (1, True) and job(2) == (2, True) and not lock.is_locked


def test_an_object_that_goes_away_releases_without_a_word(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock = ours.FileLock(path)
        lock.acquire()
        del lock
        gc.collect()
        with ours.FileLock(path, timeout=0):
            pass


def test_one_object_for_a_path(path):
    one = ours.FileLock(path, is_singleton=True)
    with one, ours.FileLock(str(path), is_singleton=True) as other:
        assert other is one and one.is_singleton and one.lock_counter == 2
    with pytest.raises(ValueError, match="other arguments"):
        ours.FileLock(path, timeout=3, is_singleton=True)
    assert ours.SoftFileLock(path, is_singleton=True) is not one


def test_a_child_holds_nothing(path):
    lock = ours.FileLock(path)
    with lock:

        def run():
            assert not lock.is_locked and lock.lock_counter == 0
            lock.release()
            with pytest.raises(ours.Timeout, match=f"pid {os.getppid()}"):
                lock.acquire(timeout=0)

        assert fork(run) == 0 and lock.is_locked


def test_tasks_of_one_object_and_of_several_event_loops(path):
    """The object counts, as there; event loops in threads do not get in each other's way."""
    lock = ours.AsyncFileLock(path)

    async def main():
        async with lock:
            async with lock:
                assert lock.lock_counter >= 2

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not lock.is_locked and lock.lock_counter == 0


def test_a_killed_holder(path, locks, child):
    one = child(
        f"""
        from lockshm.compat import filelock
        filelock.configure(locks.name)
        lock = filelock.FileLock({str(path)!r})
        lock.acquire()
        say("held")
        time.sleep(3600)
        """
    )
    assert one.line() == "held"
    with pytest.raises(ours.Timeout, match=f"pid {one.pid}"):
        ours.FileLock(path, timeout=0).acquire()
    one.kill()
    with ours.FileLock(path):
        pass


def test_readers_and_writers(path):
    lock, other = ours.ReadWriteLock(path), ours.ReadWriteLock(path, timeout=0)
    with lock.read_lock(), other.read_lock():
        with lock.read_lock():
            pass
        with pytest.raises(ours.Timeout):
            ours.ReadWriteLock(path).acquire_write(timeout=0)
        with pytest.raises(RuntimeError, match="other mode"):
            lock.acquire_write()
    with lock.write_lock(timeout=1):
        with pytest.raises(ours.Timeout), other.read_lock():
            pass
        with pytest.raises(RuntimeError, match="other mode"):
            lock.acquire_read()
    with pytest.raises(RuntimeError, match="not held"):
        lock.release()
    lock.acquire_read()
    lock.close()
    lock.close()
    with other.write_lock(blocking=False):
        pass


def test_async(path, locks):
    async def main():
        lock = ours.AsyncFileLock(path)
        async with lock:
            assert lock.is_locked
            with pytest.raises(ours.Timeout):
                await ours.AsyncFileLock(path, timeout=0.01).acquire()
            waiting = ours.AsyncFileLock(path)
            task = asyncio.create_task(waiting.acquire())
            while not waiters(locks, os.fsencode(path)):
                await asyncio.sleep(0)
        await task
        await waiting.release()
        assert not waiting.is_locked

    asyncio.run(main())


@pytest.mark.parametrize("make", [ours.FileLock, ours.AsyncFileLock])
def test_an_unknown_option_is_refused(path, make):
    with pytest.raises(TypeError, match="lifetime"):
        make(path, lifetime=3)
    with pytest.raises(TypeError, match="intervall"):
        make(path).acquire(intervall=3)


def test_default_segment(monkeypatch):
    monkeypatch.setattr(ours, "_segment_name", None)
    opened = []
    monkeypatch.setattr(lockshm, "open", lambda name: opened.append(name))
    monkeypatch.setattr(ours, "_opened", {})
    ours._locks()
    assert opened == [f"filelock-{os.getuid()}"]


def test_names_and_parameters_of_the_package():
    theirs = pytest.importorskip("filelock")
    missing = set(theirs.__all__) - set(ours.__all__) - {"__version__"}
    if missing <= {"BaseAsyncFileLock", "AsyncSoftFileLock", "AsyncUnixFileLock", "AsyncWindowsFileLock"}:
        missing = set()
    assert not missing
    for name in ("__init__", "acquire", "release"):
        parameters = inspect.signature(getattr(theirs.BaseFileLock, name)).parameters
        here = inspect.signature(getattr(ours.BaseFileLock, name)).parameters
        assert not set(parameters) - set(here), name
    for name in ("is_locked", "lock_file", "timeout"):
        assert hasattr(ours.BaseFileLock, name)
