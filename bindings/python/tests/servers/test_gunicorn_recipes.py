# SPDX-License-Identifier: MIT
"""The examples for gunicorn: single flight, once, and a scheduler in one worker; each with its worker killed."""

import os
import pathlib
import signal

import pytest
from support import EXAMPLES, HERE, await_stopped, await_true, gunicorn

pytest.importorskip("gunicorn")


def kill(pid):
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("options", [["--preload"], []], ids=["preload", "no-preload"])
def test_exactly_the_next_worker_fills_when_the_filler_is_killed(locks, directory, gate, options):
    with gunicorn(directory, "flight_app", "--workers", "4", "--timeout", "300", *options, serving="/",
                  CACHE_DIRECTORY=directory, GATE=gate.path) as server:  # fmt: skip
        replies = [server.get("/page")]
        filler = gate.visit()
        filler.await_event("renders")
        for n in (2, 3, 4):
            replies.append(server.get("/page"))
            await_true(lambda n=n: len(locks.holders("page:page")) == n, f"{n - 1} requests wait")
        kill(filler.pid)
        following = gate.visit()
        following.await_event("renders")
        assert following.pid != filler.pid
        assert [request.state for request in locks.holders("page:page")] == ["holding", "waiting", "waiting"]
        following.go()
        results = [reply.result() for reply in replies]
    assert results[0][0] == 0
    assert results[1:] == [(200, f"page by {following.pid}")] * 3
    assert gate.has_no_client()


def test_once_runs_in_one_worker_and_again_only_if_it_was_killed(unchecked_locks, directory, gate):
    with gunicorn(directory, "app", "--timeout", "300", "-c", str(HERE / "once_conf.py"), serving=None,
                  GATE=gate.path) as server:  # fmt: skip

        def skips():
            return len([line for line in server.output().splitlines() if "done by another worker" in line])

        first = gate.visit()
        first.await_event("warms up")
        await_true(lambda: skips() == 1, "the other worker skips it")
        kill(first.pid)
        second = gate.visit()  # the worker that gunicorn starts in its place
        second.await_event("warms up")
        assert second.pid != first.pid
        second.go()
        await_true(lambda: [request.state for request in unchecked_locks.holders("warm-up")] == ["cooling"], "the period runs")
        kill(second.pid)
        await_true(lambda: skips() == 2, "the worker in its place skips it")
        assert gate.has_no_client()


def schedulers(server):
    return [int(line) for line in server.lines("scheduled in ")]


def start_scheduler(directory, **environ):
    pytest.importorskip("apscheduler")
    options = ["--workers", "3", "--timeout", "300", "-c", str(EXAMPLES / "gunicorn_scheduler.py")]
    return gunicorn(directory, "app", *options, GATE="", EVERY="0.02", **environ)


def test_exactly_one_worker_schedules_and_another_takes_over(locks, directory):
    with start_scheduler(directory) as server:
        await_true(lambda: schedulers(server), "a job runs")
        for _ in range(2):
            await_true(lambda: len(locks.holders("scheduler")) == 3, "the other workers queue")
            first = schedulers(server)[-1]
            assert [(request.state, request.pid == first) for request in locks.holders("scheduler")] == [
                ("holding", True),
                ("waiting", False),
                ("waiting", False),
            ]
            kill(first)
            await_true(lambda first=first: schedulers(server)[-1] != first, "another worker schedules")
        pids = schedulers(server)
        assert pids == sorted(pids, key=pids.index)  # never two at once


def test_a_stopped_worker_stops_scheduling_and_queues_again(locks, directory):
    with start_scheduler(directory, LEASE="1") as server:
        first = await_true(lambda: schedulers(server), "a job runs")[0]
        await_true(lambda: len(locks.holders("scheduler")) == 3, "the other workers queue")
        os.kill(first, signal.SIGSTOP)
        await_stopped(first)
        await_true(lambda: schedulers(server)[-1] != first, "another worker schedules")
        os.kill(first, signal.SIGCONT)
        await_true(lambda: first in [request.pid for request in locks.holders("scheduler")], "it queues again")


def test_the_examples_are_as_short_as_examples():
    for example in EXAMPLES.glob("*.py"):
        assert len(pathlib.Path(example).read_text().splitlines()) <= 90, example
