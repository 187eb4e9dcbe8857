# SPDX-License-Identifier: MIT
"""Real uWSGI, prefork, with the application loaded in the master and (--lazy-apps) in each worker."""

import contextlib
import json
import os
import signal

import pytest
from support import await_death, await_stopped, await_true, uwsgi

APPS = {"preload": [], "lazy-apps": ["--lazy-apps"]}


@pytest.fixture(params=APPS)
def start(request, directory, gate):
    with contextlib.ExitStack() as stack:
        yield lambda *options, app="app", **more: stack.enter_context(
            uwsgi(directory, app, *APPS[request.param], *options, GATE=gate.path, **more)
        )


def held(server, gate, url):
    reply = server.get(url)
    visit = gate.visit()
    visit.await_event("asks")
    return reply, visit, visit.await_event("holds")["token"]


def test_a_killed_worker_frees_its_lock(locks, gate, start):
    server = start()
    reply, holder, token = held(server, gate, "/hold?key=k&lease=none")
    other = server.get("/hold?key=k")  # by the other worker: this one serves one request at a time
    waiter = gate.visit()
    waiter.await_event("asks")
    await_true(lambda: len(locks.holders("k")) == 2, "the request waits")
    os.kill(holder.pid, signal.SIGKILL)
    assert waiter.await_event("holds")["token"] > token
    assert reply.result()[0] == 0
    waiter.go()
    assert other.result() == (200, "released")


def test_a_stopped_worker_loses_its_lock_when_the_lease_ends(locks, gate, start):
    server = start()
    reply, holder, token = held(server, gate, "/hold?key=k&lease=1")
    os.kill(holder.pid, signal.SIGSTOP)
    await_stopped(holder.pid)
    try:
        with locks.exclusive("k", timeout=None) as mine:
            assert mine.token > token
            os.kill(holder.pid, signal.SIGCONT)
            holder.await_event("lost")
            holder.go()
            assert reply.result() == (409, "Lost")
    finally:
        os.kill(holder.pid, signal.SIGCONT)


def test_a_restart_ends_requests_and_leaves_nothing(locks, gate, start):
    server = start("--worker-reload-mercy", "60")
    reply, holder, _ = held(server, gate, "/hold?key=k&lease=none")
    os.kill(server.pid, signal.SIGHUP)
    holder.go()
    assert reply.result() == (200, "released")
    await_death(holder.pid)
    server.await_serving()
    reply, again, _ = held(server, gate, "/hold?key=k")
    assert again.pid != holder.pid
    again.go()
    assert reply.result() == (200, "released")


def test_harakiri_frees_what_a_worker_holds(locks, gate, directory):
    """uWSGI's time-out of a request is a SIGKILL."""
    with uwsgi(directory, "app", "--harakiri", "1", GATE=gate.path) as server:
        _, holder, token = held(server, gate, "/hold?key=k&lease=none")
        with locks.exclusive("k", timeout=None) as mine:
            assert mine.token > token
        await_death(holder.pid)


def test_a_lock_that_the_master_holds_is_not_the_workers(locks, directory):
    with uwsgi(directory, "app", HOLD_AT_BOOT="1") as server:
        status, text = server.get("/preloaded").result()
        assert status == 200
        assert json.loads(text) == {"held": False, "locked": True, "again": False, "release": "NotOwned"}
        assert locks.holders("boot")[0].pid == server.pid
    assert not locks.locked("boot")


def test_locks_without_enable_threads(locks, gate, start):
    """on_lost and seats need it; locks do not."""
    server = start(threads=False)
    reply, holder, _ = held(server, gate, "/hold?key=k")
    holder.go()
    assert reply.result() == (200, "released")


def test_exactly_one_worker_has_the_seat(locks, start):
    server = start(app="uwsgi_scheduler", EVERY="0.02")
    first = int(await_true(lambda: server.lines("scheduled in "), "a job runs")[0])
    await_true(lambda: len(locks.holders("scheduler")) == 2, "the other worker queues")
    os.kill(first, signal.SIGKILL)
    await_true(lambda: int(server.lines("scheduled in ")[-1]) != first, "another worker takes over")
    workers = [int(line) for line in server.lines("scheduled in ")]
    assert workers == sorted(workers, key=workers.index)  # never two at once
    assert locks.holders("scheduler")[0].pid == workers[-1]
