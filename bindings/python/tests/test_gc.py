# SPDX-License-Identifier: MIT
"""The garbage collector, and the end of the interpreter."""

import asyncio
import gc
import sys
import warnings
import weakref

import pytest

import lockshm
from conftest import LONG, waiters


def test_a_dropped_hold_is_released_with_a_warning(locks):
    lock = locks.exclusive("report")
    lock.acquire()
    with pytest.warns(ResourceWarning, match="'report' was dropped while it was held"):
        del lock
    assert not locks.holders("report")


def test_a_dropped_reentrant_hold(locks):
    lock = locks.exclusive("report", reentrant=True)
    lock.acquire()
    lock.acquire()
    with pytest.warns(ResourceWarning):
        del lock
    assert not locks.holders("report")


def test_a_warning_that_is_an_error_does_not_keep_the_lock(locks):
    unraisable = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda args: unraisable.append(args.exc_type)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lock = locks.exclusive("report")
            lock.acquire()
            del lock
    finally:
        sys.unraisablehook = hook
    assert unraisable == [ResourceWarning] and not locks.holders("report")


def test_a_cycle_through_on_lost_is_collected(locks):
    class Job:
        def __init__(self):
            self.lock = locks.exclusive("report", on_lost=self.lost)

        def lost(self, lock):
            pass

    job = Job()
    job.lock.acquire()
    gone = weakref.ref(job)
    with pytest.warns(ResourceWarning):
        del job
        gc.collect()
    assert gone() is None and not locks.holders("report")


def test_weak_references(locks):
    lock = locks.exclusive("report")
    gone = weakref.ref(lock)
    assert gone() is lock
    del lock
    assert gone() is None


def test_a_lock_object_keeps_its_segment(locks):
    other = lockshm.open(locks.name)
    lock = other.exclusive("report")
    del other
    gc.collect()
    with lock:
        assert locks.locked("report")


def test_a_dropped_task_leaves_the_queue(locks):
    """A coroutine that is closed at its await, by the collector or by hand."""
    with locks.exclusive("report"):
        loop = asyncio.new_event_loop()
        waiting = locks.exclusive("report", timeout=None).acquire_async()

        async def step():
            waiting.send(None)
            assert waiters(locks, "report")
            waiting.close()
            assert not waiters(locks, "report")

        loop.run_until_complete(step())
        loop.close()


ENDS = {
    "a hold of the module": ("lock = locks.exclusive('end'); lock.acquire(); say('ready')", 0),
    "sys.exit in with": ("with locks.exclusive('end'):\n    say('ready')\n    sys.exit(3)", 3),
    "an exception in with": ("with locks.exclusive('end'):\n    say('ready')\n    raise KeyError", 1),
    "os._exit": ("lock = locks.exclusive('end'); lock.acquire(); say('ready'); os._exit(4)", 4),
    "a killed process": ("lock = locks.exclusive('end'); lock.acquire(); say('ready'); os.kill(os.getpid(), 9)", -9),
    "daemon threads that wait": (
        """
hold = locks.exclusive('end'); hold.acquire()
for _ in range(5):
    threading.Thread(target=locks.exclusive('end', timeout=None).acquire, daemon=True).start()
while len(locks.holders('end')) < 6:
    time.sleep(0.001)
say('ready')
""",
        0,
    ),
    "daemon threads that are granted at the end": (
        """
hold = locks.exclusive('end'); hold.acquire()
def work():
    while True:
        with locks.exclusive('end', timeout=None):
            pass
for _ in range(5):
    threading.Thread(target=work, daemon=True).start()
while len(locks.holders('end')) < 6:
    time.sleep(0.001)
hold.release()
say('ready')
""",
        0,
    ),
    "tasks that wait": (
        """
async def main():
    async with locks.exclusive('end'):
        tasks = [asyncio.create_task(locks.exclusive('end', timeout=None).acquire_async()) for _ in range(5)]
        while len(locks.holders('end')) < 6:
            await asyncio.sleep(0)
        say('ready')
asyncio.run(main())
""",
        0,
    ),
    "a loop that is never closed": (
        """
loop = asyncio.new_event_loop()
hold = locks.exclusive('end'); hold.acquire()
tasks = [loop.create_task(locks.exclusive('end', timeout=None).acquire_async()) for _ in range(5)]
loop.call_later(0.01, loop.stop)
loop.run_forever()
say('ready')
""",
        0,
    ),
    "a seat": ("seat = locks.seat('end', lambda: time.sleep(3600))\nwhile not seat.held: time.sleep(0.001)\nsay('ready')", 0),
    "on_lost": ("lock = locks.exclusive('end', on_lost=print); lock.acquire(); say('ready')", 0),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_end_of_a_process(locks, child, how):
    code, expected = ENDS[how]
    for _ in range(20 if LONG else 1):
        one = child(code, "-Wignore", "-Xfaulthandler")
        assert one.line() == "ready"
        status, _, err = one.output()
        assert status == expected, err
        assert "Fatal" not in err and "Segmentation" not in err
        with locks.exclusive("end", timeout=None):
            assert len(locks.holders("end")) == 1


SUBINTERPRETER = """
import _xxsubinterpreters as interpreters
code = '''
import asyncio, lockshm
locks = lockshm.open("{name}", create=False)
with locks.exclusive("inner", timeout=0) as hold:
    assert hold.held and locks.exclusive("outer").acquire(blocking=False) is False
'''.replace("{name}", locks.name)
with locks.exclusive("outer"):
    for _ in range(5):
        one = interpreters.create()
        interpreters.run_string(one, code)
        interpreters.destroy(one)
        with locks.exclusive("inner", timeout=0):
            pass
say("works")
"""


def test_subinterpreters(child):
    """Each has a module, types and loops of its own; the holds are the process's."""
    pytest.importorskip("_xxsubinterpreters")
    one = child(SUBINTERPRETER)
    assert one.line() == "works"
    status, _, err = one.output()
    assert status == 0, err

