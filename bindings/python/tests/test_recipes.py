# SPDX-License-Identifier: MIT
"""single_flight, once and seat, in one process and with processes that are killed half way."""

import asyncio
import functools
import logging
import signal
import threading
import time

import pytest

import lockshm
from conftest import until, waiters


class Cache:
    def __init__(self, value=None):
        self.value = value
        self.fills = 0

    def look(self):
        return self.value

    def fill(self):
        self.fills += 1
        self.value = f"value {self.fills}"
        return self.value


# --- single_flight -----------------------------------------------------------------------------------------


def test_single_flight_fills_once(locks):
    cache = Cache()
    assert locks.single_flight("key", cache.look, cache.fill) == "value 1"
    assert locks.single_flight("key", cache.look, cache.fill) == "value 1"
    assert cache.fills == 1 and not locks.locked("key")


def test_single_flight_of_many_threads(locks):
    cache, results = Cache(), []

    def slow_fill():
        until(lambda: len(waiters(locks, "key")) == 9)
        return cache.fill()

    threads = [
        threading.Thread(target=lambda: results.append(locks.single_flight("key", cache.look, slow_fill, timeout=None)))
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["value 1"] * 10 and cache.fills == 1


def test_single_flight_with_none_as_a_value(locks):
    absent, store = object(), {}

    def fill():
        store["key"] = None

    for _ in range(2):
        assert locks.single_flight("key", lambda: store.get("key", absent), fill, absent=absent) is None


def test_single_flight_whose_fill_fails(locks):
    with pytest.raises(KeyError):
        locks.single_flight("key", lambda: None, lambda: {}["missing"])
    assert not locks.locked("key")


def test_single_flight_that_times_out(locks):
    cache = Cache()
    with locks.exclusive("key"):
        with pytest.raises(lockshm.Timeout):
            locks.single_flight("key", cache.look, cache.fill, timeout=0.01)
        assert locks.single_flight("key", cache.look, cache.fill, timeout=0.01, stale=lambda: "old") == "old"


def test_single_flight_async(locks):
    cache = Cache()

    async def fill():
        await asyncio.sleep(0)
        return cache.fill()

    async def main():
        flights = [locks.single_flight_async("key", cache.look, fill, timeout=None) for _ in range(20)]
        assert await asyncio.gather(*flights) == ["value 1"] * 20
        cache.value = None
        assert await locks.single_flight_async("key", cache.look, cache.fill) == "value 2"
        cache.value = None
        async with locks.exclusive("key"):
            with pytest.raises(lockshm.Timeout):
                await locks.single_flight_async("key", cache.look, fill, timeout=0.01)

            async def stale():
                return "old"

            assert await locks.single_flight_async("key", cache.look, fill, timeout=0.01, stale=stale) == "old"

    asyncio.run(main())
    assert cache.fills == 2


# --- once --------------------------------------------------------------------------------------------------


def test_once_runs_and_is_then_skipped(locks, caplog):
    caplog.set_level(logging.INFO, logger="lockshm")
    first = locks.once("job", 3600, lambda: "done")
    assert first and (first.ran, first.value, first.holder) == (True, "done", None)
    second = locks.once("job", 3600, lambda: pytest.fail("ran again"))
    assert not second and second.value is None and second.holder.state == "cooling"
    (record,) = caplog.records
    assert record.levelname == "INFO" and "'job': once skipped" in record.message and "cooling down for another " in record.message


def test_once_while_another_process_runs_it(locks, child, caplog):
    caplog.set_level(logging.INFO, logger="lockshm")
    one = child("locks.once('job', 3600, lambda: (say('runs'), time.sleep(3600)), tag='nightly')")
    assert one.line() == "runs"
    skipped = locks.once("job", 3600, lambda: None)
    assert not skipped and skipped.holder.pid == one.pid and f"pid {one.pid}" in caplog.text and "nightly" in caplog.text


def test_once_that_was_cut_short_runs_again(locks):
    def cut():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        locks.once("job", 3600, cut)
    assert locks.once("job", 3600, lambda: None)


def test_once_that_overruns_its_period(locks):
    def work():
        started = time.monotonic()
        until(lambda: time.monotonic() > started + 0.02)
        assert not locks.once("job", 0.01, lambda: None)

    assert locks.once("job", 0.01, work)
    assert locks.once("job", 0.01, lambda: None)


def test_once_async(locks):
    async def main():
        async def work():
            await asyncio.sleep(0)
            return "done"

        runs = await asyncio.gather(*(locks.once_async("job", 3600, work) for _ in range(10)))
        assert [run.ran for run in runs].count(True) == 1 and runs[0].value == "done"

        async def forever():
            await asyncio.Event().wait()

        task = asyncio.create_task(locks.once_async("cancelled", 3600, forever))
        while not locks.locked("cancelled"):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert await locks.once_async("cancelled", 3600, lambda: "plain") == (True, "plain", None)

    asyncio.run(main())


# --- seat --------------------------------------------------------------------------------------------------


def test_stop_a_waiting_seat(locks):
    with locks.exclusive("scheduler"):
        seat = locks.seat("scheduler", lambda: pytest.fail("seated"))
        until(lambda: waiters(locks, "scheduler"))
        seat.stop()
        assert seat.join(60) and not seat.held
        assert not waiters(locks, "scheduler")
    for _ in range(20):
        with locks.exclusive("scheduler"):
            seat = locks.seat("scheduler", lambda: pytest.fail("seated"))
            seat.stop()
            assert seat.join(60)


def test_a_seat_whose_function_returns(locks):
    gate = threading.Event()
    seat = locks.seat("scheduler", gate.wait)
    until(lambda: seat.held)
    assert not seat.join(0)
    seat.stop()
    assert seat.stopping.is_set() and seat.held
    gate.set()
    assert seat.join(60) and not locks.locked("scheduler")


def test_a_seat_whose_function_fails_queues_again(locks, caplog):
    calls = []

    def work():
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("first")

    seat = locks.seat("scheduler", work)
    assert seat.join(60) and len(calls) == 2 and "the function of the seat failed" in caplog.text


def test_a_lost_seat(locks, child):
    one = child(
        """
        lost = threading.Event()
        def work():
            say("seated")
            lost.wait()
            say("lost", seat.held)
        seat = locks.seat("scheduler", work, lease=0.3, on_lost=lambda seat: lost.set())
        seat.join()
        """
    )
    assert one.line() == "seated"
    one.send_signal(signal.SIGSTOP)
    with locks.exclusive("scheduler", timeout=None):
        one.send_signal(signal.SIGCONT)
        assert one.line() == "lost False"


def test_a_process_that_lost_the_seat_queues_again(locks, child):
    one = child(
        """
        lost = threading.Event()
        def work():
            say("seated")
            lost.wait()
            lost.clear()
        seat = locks.seat("scheduler", work, lease=0.3, on_lost=lambda seat: lost.set())
        seat.join()
        """
    )
    for _ in range(3):
        assert one.line() == "seated"
        one.send_signal(signal.SIGSTOP)
        with locks.exclusive("scheduler", timeout=None):
            one.send_signal(signal.SIGCONT)
            until(lambda: waiters(locks, "scheduler"))


def test_a_seat_after_the_segment_was_removed(locks, caplog):
    with locks.exclusive("scheduler"):
        seat = locks.seat("scheduler", lambda: None)
        until(lambda: waiters(locks, "scheduler"))
        lockshm.destroy(locks.name)
        assert seat.join(60) and "no seat any more" in caplog.text


def test_seat_async(locks):
    async def main():
        started, runs = asyncio.Event(), []

        async def work():
            runs.append(1)
            started.set()
            await asyncio.Event().wait()

        async with locks.exclusive("scheduler"):
            seat = locks.seat_async("scheduler", work)
            while not waiters(locks, "scheduler"):
                await asyncio.sleep(0)
            assert not seat.held
        await started.wait()
        assert seat.held
        seat.stop()
        await seat
        assert not locks.locked("scheduler") and runs == [1]

        async def ends():
            runs.append(2)

        await locks.seat_async("scheduler", ends)
        assert runs == [1, 2] and not locks.locked("scheduler")

    asyncio.run(main())


def test_cancelling_the_awaiter_of_a_seat(locks):
    async def main():
        started = asyncio.Event()

        async def work():
            started.set()
            await asyncio.Event().wait()

        async def wait():
            await locks.seat_async("scheduler", work)

        task = asyncio.create_task(wait())
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() and not locks.locked("scheduler")

    asyncio.run(main())


def test_a_lost_async_seat_queues_again(locks, child):
    one = child(
        """
        async def work():
            say("seated")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                say("cancelled")
                raise
        async def main():
            await locks.seat_async("scheduler", work, lease=0.3)
        asyncio.run(main())
        """
    )
    assert one.line() == "seated"
    one.send_signal(signal.SIGSTOP)
    with locks.exclusive("scheduler", timeout=None):
        one.send_signal(signal.SIGCONT)
        assert one.line() == "cancelled"
    assert one.line() == "seated"


def test_an_async_seat_that_fails_queues_again(locks, caplog):
    calls = []

    async def work():
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("first")

    async def main():
        await locks.seat_async("scheduler", work)

    asyncio.run(main())
    assert len(calls) == 2 and "the function of the seat failed" in caplog.text


# --- wrong arguments ---------------------------------------------------------------------------------------


async def coroutine():
    raise AssertionError("it ran")


class AsyncCall:
    async def __call__(self):
        raise AssertionError("it ran")


def must_not_run():
    raise AssertionError("it ran")


def none():
    return None


@pytest.mark.parametrize("function", [coroutine, functools.partial(coroutine), AsyncCall()])
def test_the_blocking_forms_refuse_async_functions(locks, function):
    for name, call in {
        "look": lambda: locks.single_flight("key", function, none),
        "fill": lambda: locks.single_flight("key", none, function),
        "stale": lambda: locks.single_flight("key", none, none, stale=function),
        "fn": lambda: locks.once("key", 60, function),
    }.items():
        with pytest.raises(TypeError, match=rf"^{name} is .*, an async function: use \w+_async\(\)$"):
            call()
    with pytest.raises(TypeError, match=r"use seat_async\(\)"):
        locks.seat("key", function)
    assert locks.holders("key") == []


def test_what_is_no_function_is_named(locks):
    for name, call in {
        "look": lambda form: form("key", 5, none),
        "fill": lambda form: form("key", none, 5),
        "stale": lambda form: form("key", none, none, stale=5),
    }.items():
        with pytest.raises(TypeError, match=f"^{name} is 5, must be a function"):
            call(locks.single_flight)
        with pytest.raises(TypeError, match=f"^{name} is 5, must be a function"):
            asyncio.run(call(locks.single_flight_async))
    for call in (lambda: locks.once("key", 60, 5), lambda: asyncio.run(locks.once_async("key", 60, 5)), lambda: locks.seat("key", 5)):
        with pytest.raises(TypeError, match="^fn is 5, must be a function"):
            call()
    with pytest.raises(TypeError, match="^on_lost is 5"):
        locks.seat("key", none, on_lost=5)
    assert locks.holders("key") == []


@pytest.mark.parametrize(
    ("period", "kind"),
    [("1h", TypeError), (None, TypeError), (0, ValueError), (-1, ValueError), (float("nan"), ValueError), (float("inf"), ValueError)],
)
def test_a_wrong_period_is_named(locks, period, kind):
    for call in (lambda: locks.once("key", period, must_not_run), lambda: asyncio.run(locks.once_async("key", period, must_not_run))):
        with pytest.raises(kind, match=f"^period is {period!r}, must be"):
            call()
    assert locks.holders("key") == []
