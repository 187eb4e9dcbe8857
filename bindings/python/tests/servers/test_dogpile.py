# SPDX-License-Identifier: MIT
"""The example for dogpile.cache: one creator among processes, over a file that they share."""

import contextlib
import os
import signal
import sys
import threading

import pytest
from support import EXAMPLES, HERE, await_true, python

cache = pytest.importorskip("dogpile.cache")
sys.path.append(str(EXAMPLES))


@pytest.fixture
def start(directory, gate):
    """Starts a process that wants the value."""
    with contextlib.ExitStack() as stack:

        def one(name, **environ):
            home = f"{directory}/{name}"
            os.mkdir(home)
            program = python(home, str(HERE / "dogpile_app.py"), f"{directory}/cache", GATE=gate.path, **environ)
            return stack.enter_context(program)

        yield one


def value(process):
    return int(await_true(lambda: process.lines("value "), "the process has a value")[0])


def test_one_process_creates_and_the_next_one_if_it_is_killed(locks, gate, start):
    key = "dogpile:page"
    processes = [start("0")]
    creator = gate.visit()
    creator.await_event("creates")
    for n in (1, 2, 3):
        processes.append(start(str(n)))
        await_true(lambda n=n: len(locks.holders(key)) == n + 1, "the process waits")
    os.kill(creator.pid, signal.SIGKILL)
    following = gate.visit()
    following.await_event("creates")
    following.go()
    assert [value(process) for process in processes[1:]] == [following.pid] * 3
    assert gate.has_no_client()


def test_the_old_value_is_served_while_a_process_creates_a_new_one(locks, gate, start):
    first = start("0")
    creator = gate.visit()
    creator.go()
    old = value(first)
    start("1", EXPIRES="1e-6")
    creator = gate.visit()
    creator.await_event("creates")
    assert value(start("2", EXPIRES="1e-6")) == old
    creator.go()


def test_a_mutex_is_released_by_another_thread_and_not_entered_twice(locks):
    """With async_creation_runner the thread that acquired it goes on to serve requests."""
    from dogpile_mutex import LockshmMutexes

    runs = []
    region = cache.make_region(async_creation_runner=lambda region, key, creator, mutex: runs.append((creator, mutex)))
    region.configure("dogpile.cache.memory", expiration_time=1e-6, wrap=[LockshmMutexes(locks)])
    assert region.get_or_create("k", lambda: "old") == "old"
    assert [region.get_or_create("k", lambda: "new") for _ in range(3)] == ["old"] * 3
    assert len(runs) == 1 and region.key_is_locked("k")
    creator, mutex = runs.pop()
    worker = threading.Thread(target=lambda: (creator(), mutex.release()))
    worker.start()
    worker.join()
    assert not region.key_is_locked("k")
