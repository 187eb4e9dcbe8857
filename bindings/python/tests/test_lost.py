# SPDX-License-Identifier: MIT
"""Holders that are killed, stopped or too slow, and what reports a loss."""

import asyncio
import gc
import logging
import os
import signal
import weakref

import pytest

import lockshm
from conftest import until, waiters


def lose(locks, key="report", **options):
    """A lock object that has lost its hold."""
    lock = locks.exclusive(key, lease=0.01, renew=False, **options)
    lock.acquire()
    with locks.exclusive(key, timeout=None) as other:
        lost_to = other.token
    return lock, lost_to


def test_a_killed_holder(locks, holder):
    one = holder("report")
    one.kill()
    with locks.exclusive("report", timeout=None) as hold:
        assert hold.token > one.token and hold.damage is None


def test_killed_holders_one_after_the_other(locks, child):
    waiting = [child("with locks.exclusive('report', timeout=None):\n    say('held')\n    time.sleep(3600)") for _ in range(8)]
    for _ in range(8):
        until(lambda: any(request.state == "holding" for request in locks.holders("report")))
        (pid,) = {request.pid for request in locks.holders("report") if request.state == "holding"}
        (one,) = [process for process in waiting if process.pid == pid]
        assert one.line() == "held"
        one.kill_and_wait()
        waiting.remove(one)
    with locks.exclusive("report", timeout=None):
        assert len(locks.holders("report")) == 1


def test_a_stopped_holder_loses_its_lease(locks, child):
    one = child(
        """
        lock = locks.exclusive("report", lease=0.3, tag="slow")
        lock.acquire()
        say(lock.token)
        sys.stdin.readline()
        say(lock.held, lock.remaining, lock.count)
        try:
            with locks.exclusive("other"):
                lock.release()
        except lockshm.Lost as error:
            say(error.token, error.lost_to)
        """
    )
    token = int(one.line())
    one.send_signal(signal.SIGSTOP)
    with locks.exclusive("report", timeout=None) as hold:
        one.send_signal(signal.SIGCONT)
        print(file=one.stdin, flush=True)
        assert one.line() == "False 0.0 1"
        assert one.line() == f"{token} {hold.token}"


def test_a_killed_waiter(locks, child):
    with locks.exclusive("report"):
        one = child("locks.exclusive('report', timeout=None).acquire()")
        until(lambda: len(waiters(locks, "report")) == 1)
        one.kill_and_wait()
    with locks.exclusive("report", timeout=None):
        pass


def test_each_call_on_a_lost_hold(locks):
    lock, lost_to = lose(locks)
    token = lock.token
    for call in (lock.check, lock.renew, lambda: lock.extend(1), lock.upgrade, lock.downgrade, lock.acknowledge, lock.acquire):
        with pytest.raises(lockshm.Lost) as lost:
            call()
        assert lost.value.token == token and lost.value.lost_to >= lost_to
    assert not lock.held and lock.remaining == 0.0
    with pytest.raises(lockshm.Lost, match=rf"'report'.*token {token}; token \d+ was issued after it") as lost:
        lock.release()
    assert lost.value.token == token
    with pytest.raises(lockshm.NotOwned):
        lock.release()
    with lock:
        assert lock.held


def test_with_raises_lost_at_its_end(locks):
    with pytest.raises(lockshm.Lost), locks.exclusive("report", lease=0.01, renew=False):
        locks.exclusive("report", timeout=None).__enter__().release()


def test_lost_does_not_replace_an_exception(locks, caplog):
    with pytest.raises(KeyError), locks.exclusive("report", lease=0.01, renew=False):
        locks.exclusive("report", timeout=None).__enter__().release()
        raise KeyError
    assert [record.levelname for record in caplog.records] == ["ERROR"] and "lost before its release" in caplog.text


def test_a_late_release_is_logged(locks, caplog):
    lock = locks.exclusive("report", lease=0.001, renew=False)
    lock.acquire()
    until(lambda: lock.remaining == 0.0)
    assert lock.held and lock.check() == 0.0
    lock.release()
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "'report'" in caplog.text


def test_on_lost_in_a_thread(locks):
    lost = []
    lock, _ = lose(locks, on_lost=lost.append)
    until(lambda: lost)
    assert lost == [lock]
    with pytest.raises(lockshm.Lost):
        lock.release()


def test_on_lost_is_called_for_the_lost_one_only(locks):
    lost = []
    others = [locks.exclusive(f"other {number}", on_lost=lost.append) for number in range(5)]
    for other in others:
        other.acquire()
    lock, _ = lose(locks, on_lost=lost.append)
    until(lambda: lost)
    for other in others:
        other.release()
    second, _ = lose(locks, key="second", on_lost=lost.append)
    until(lambda: len(lost) == 2)
    assert lost == [lock, second]
    for one in lost:
        with pytest.raises(lockshm.Lost):
            one.release()


def test_on_lost_that_fails_is_logged(locks, caplog):
    def fail(lock):
        raise KeyError("in on_lost")

    lock, _ = lose(locks, on_lost=fail)
    until(lambda: "on_lost failed" in caplog.text)
    with pytest.raises(lockshm.Lost):
        lock.release()


@pytest.mark.parametrize("form", ["plain", "async"])
def test_on_lost_in_an_event_loop(locks, form):
    async def main():
        lost, loop = asyncio.Event(), asyncio.get_running_loop()

        def plain(lock):
            assert asyncio.get_running_loop() is loop
            lost.set()

        async def coroutine(lock):
            plain(lock)

        lock = locks.exclusive("report", lease=0.01, renew=False, on_lost=plain if form == "plain" else coroutine)
        async with locks.exclusive("other"):
            await lock.acquire_async()
            async with locks.exclusive("report", timeout=None):
                await lost.wait()
            with pytest.raises(lockshm.Lost):
                lock.release()

    asyncio.run(main())


def test_an_async_on_lost_is_not_collected_half_way(locks):
    async def main():
        begun, ended = asyncio.Event(), asyncio.Event()

        async def on_lost(lock):
            begun.set()
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.05, lambda one=weakref.ref(future): one() and one().set_result(None))
            await future
            ended.set()

        lock = locks.exclusive("report", lease=0.01, renew=False, on_lost=on_lost)
        await lock.acquire_async()
        async with locks.exclusive("report", timeout=None):
            await begun.wait()
            gc.collect()
            await asyncio.wait_for(ended.wait(), 60)
        with pytest.raises(lockshm.Lost):
            lock.release()

    asyncio.run(main())


def test_an_operator_ends_a_hold(locks):
    tool = os.environ.get("LOCKCTL")
    if not tool:
        pytest.skip("LOCKCTL is not set")
    lost = []
    with pytest.raises(lockshm.Lost), locks.exclusive("report", lease=None, on_lost=lost.append) as hold:
        assert os.spawnlp(os.P_WAIT, tool, tool, "release", "--token", str(hold.token), locks.name, "report") == 0
        until(lambda: lost)
        hold.check()


def test_log_is_quiet_for_what_works(locks, caplog):
    caplog.set_level(logging.DEBUG)
    with locks.exclusive("report"):
        pass
    assert not caplog.records
