# SPDX-License-Identifier: MIT
"""Real gunicorn: workers that are killed, stopped, restarted and timed out, with and without --preload."""

import contextlib
import json
import os
import signal

import pytest
from support import await_death, await_stopped, await_true, gunicorn, is_alive

pytest.importorskip("gunicorn")

KINDS = {"sync": ["--worker-class", "sync"], "gthread": ["--worker-class", "gthread", "--threads", "4"]}
PRELOAD = {"preload": ["--preload"], "no-preload": []}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=PRELOAD)
def preload(request):
    return PRELOAD[request.param]


@pytest.fixture
def start(directory, gate):
    with contextlib.ExitStack() as stack:
        yield lambda *options, **environ: stack.enter_context(
            gunicorn(directory, "app", "--timeout", "300", *options, GATE=gate.path, **environ)
        )


def held(server, gate, url):
    """Start a request and await its grant: (reply, visit, token).  Again if gunicorn ends the worker before that."""
    while True:
        reply = server.get(url)
        visit = gate.visit()
        events = [visit.read(), visit.read()]
        if events[1]:
            assert [event["event"] for event in events] == ["asks", "holds"]
            return reply, visit, events[1]["token"]


def waiting_elsewhere(server, gate, locks, key, pid):
    """Start a request for the key in another worker than ``pid``, and await its wait: (reply, visit)."""
    waiters = len(locks.holders(key))
    os.kill(pid, signal.SIGSTOP)  # so that it does not accept
    await_stopped(pid)
    try:
        reply = server.get(f"/hold?key={key}")
        visit = gate.visit()
        visit.await_event("asks")
        await_true(lambda: len(locks.holders(key)) > waiters, "the request waits")
    finally:
        os.kill(pid, signal.SIGCONT)
    return reply, visit


def test_a_killed_worker_frees_its_lock(locks, gate, start, kind, preload):
    server = start(*kind, *preload)
    reply, holder, token = held(server, gate, "/hold?key=k&lease=none")
    next_reply, waiter = waiting_elsewhere(server, gate, locks, "k", holder.pid)
    os.kill(holder.pid, signal.SIGKILL)
    assert waiter.await_event("holds")["token"] > token
    assert reply.result()[0] == 0
    waiter.go()
    assert next_reply.result() == (200, "released")
    assert not locks.locked("k")


def test_readers_of_two_workers_share_and_a_writer_waits(locks, gate, start, kind):
    server = start(*kind)
    first, reader, _ = held(server, gate, "/hold?key=k&shared=1")
    second, other, _ = held(server, gate, "/hold?key=k&shared=1")
    writer = locks.exclusive("k", timeout=0)
    assert not writer.acquire(blocking=False)
    assert writer.holder.pid == other.pid  # the newest reader
    reader.go()
    other.go()
    assert first.result() == second.result() == (200, "released")
    with locks.exclusive("k", timeout=None):
        pass


def test_a_stopped_worker_loses_its_lock_when_the_lease_ends(locks, gate, start, kind):
    server = start(*kind)
    reply, holder, token = held(server, gate, "/hold?key=k&lease=1")
    os.kill(holder.pid, signal.SIGSTOP)
    await_stopped(holder.pid)
    mine = locks.exclusive("k", timeout=None)
    try:
        with mine:
            assert mine.token > token
            os.kill(holder.pid, signal.SIGCONT)
            holder.await_event("lost")  # on_lost runs while the request goes on
            holder.go()
            assert reply.result() == (409, "Lost")
            assert mine.check() > 0
    finally:
        os.kill(holder.pid, signal.SIGCONT)


def test_the_lease_of_a_slow_worker_is_renewed(locks, gate, start, kind):
    server = start(*kind)
    reply, holder, _ = held(server, gate, "/hold?key=k&lease=0.5")

    def renewed():
        hold = locks.holders("k")[0]
        return hold.age > 1 and hold.expires_in > 0

    await_true(renewed, "the lease is renewed")
    holder.go()
    assert reply.result() == (200, "released")


def test_a_graceful_restart_ends_requests_and_leaves_nothing(locks, gate, start, kind, preload):
    server = start(*kind, *preload)
    reply, holder, _ = held(server, gate, "/hold?key=k&lease=none")
    os.kill(server.pid, signal.SIGHUP)
    next_reply, waiter = waiting_elsewhere(server, gate, locks, "k", holder.pid)
    holder.go()
    assert reply.result() == (200, "released")
    waiter.await_event("holds")
    waiter.go()
    assert next_reply.result() == (200, "released")
    await_death(holder.pid)


def test_the_timeout_of_a_worker_frees_what_it_holds(locks, gate, start):
    server = start("--timeout", "1")
    _, holder, token = held(server, gate, "/hold?key=k&lease=none")
    with locks.exclusive("k", timeout=None) as mine:  # granted when gunicorn has aborted the worker
        assert mine.token > token
    await_death(holder.pid)


def waiting(server, gate, locks, key):
    """Start a request that waits: its visit.  Again if gunicorn ends the worker before that."""
    while True:
        server.get(f"/hold?key={key}")
        visit = gate.visit()
        if visit.read():
            await_true(lambda: len(locks.holders(key)) == 2 or not is_alive(visit.pid), "the worker waits")
            if is_alive(visit.pid):
                return visit


def test_the_timeout_of_a_worker_ends_its_wait(locks, gate, start):
    """gunicorn's SIGABRT has a handler in Python: the wait lets it run, and leaves the queue."""
    server = start("--timeout", "1")
    with locks.exclusive("k"):
        waiter = waiting(server, gate, locks, "k")
        assert waiter.read() is None
        await_death(waiter.pid)
        await_true(lambda: len(locks.holders("k")) == 1, "the wait is gone")
    assert f"Worker exiting (pid: {waiter.pid})" in server.output()  # not by SIGKILL


def test_a_client_timeout_is_an_error_that_names_the_holder(locks, gate, start):
    server = start()
    reply, holder, _ = held(server, gate, "/hold?key=k")
    with pytest.raises(Exception, match=f"held exclusive by pid {holder.pid}"):
        locks.exclusive("k", timeout=0.01).acquire()
    holder.go()
    assert reply.result() == (200, "released")


def test_a_lock_that_the_master_holds_is_not_the_workers(locks, start, kind):
    """--preload copies lock objects; the hold stays the master's, whose end is the server's."""
    server = start(*kind, "--preload", HOLD_AT_BOOT="1")
    status, text = server.get("/preloaded").result()
    assert status == 200
    assert json.loads(text) == {"held": False, "locked": True, "again": False, "release": "NotOwned"}
    assert locks.holders("boot")[0].pid == server.pid
    server.kill()
    assert not locks.locked("boot")


def test_the_server_ends_cleanly_after_waits_and_losses(locks, gate, start, kind):
    """The threads of the library and of the binding do not keep a worker from its end."""
    server = start(*kind, "--graceful-timeout", "1")
    reply, holder, _ = held(server, gate, "/hold?key=k")
    other, waiter = waiting_elsewhere(server, gate, locks, "k", holder.pid)
    holder.go()
    waiter.go()
    assert reply.result() == other.result() == (200, "released")
    assert server.terminate() == 0
    assert "Traceback" not in server.output()
