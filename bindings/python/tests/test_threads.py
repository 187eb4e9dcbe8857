# SPDX-License-Identifier: MIT
"""Threads: waits without the GIL, order, one object in many threads, signals."""

import signal
import threading

import pytest

import lockshm
from conftest import until, waiters


def run_all(functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    return threads


def join_all(threads):
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("one_object", [True, False])
def test_exclusion(locks, one_object):
    """A counter that is read and written apart: also with one lock object, re-entry is no hole for other threads."""
    one = locks.exclusive("counter", timeout=None)
    counter, inside = [0], []

    def work():
        for _ in range(100):
            with one if one_object else locks.exclusive("counter", timeout=None):
                inside.append(1)
                value = counter[0]
                assert len(inside) == 1
                threading.Event().wait(0)
                counter[0] = value + 1
                inside.pop()

    join_all(run_all([work] * 8))
    assert counter == [800] and not locks.locked("counter")


def test_waits_are_granted_in_arrival_order(locks):
    order, threads = [], []

    def work(number):
        with locks.exclusive("report", timeout=None):
            order.append(number)

    with locks.exclusive("report"):
        for number in range(20):
            threads += run_all([lambda number=number: work(number)])
            until(lambda: len(waiters(locks, "report")) == number + 1)
    join_all(threads)
    assert order == list(range(20))


def test_a_wait_leaves_the_interpreter_to_others(locks):
    steps = []

    def work():
        with locks.exclusive("report", timeout=None):
            steps.append("granted")

    with locks.exclusive("report"):
        (thread,) = run_all([work])
        until(lambda: waiters(locks, "report"))
        steps += ["one", "two"]
    thread.join()
    assert steps == ["one", "two", "granted"]


def test_an_endless_wait_for_a_strict_hold(locks):
    granted = []

    def work():
        with locks.exclusive("report", timeout=None, lease=None) as hold:
            granted.append(hold.remaining)

    with locks.exclusive("report", timeout=None, lease=None):
        (thread,) = run_all([work])
        until(lambda: waiters(locks, "report"))
    thread.join()
    assert granted == [float("inf")]


def test_any_thread_releases(locks):
    lock = locks.exclusive("report")
    join_all(run_all([lock.acquire]))
    assert lock.held and lock.count == 1 and lock.token
    join_all(run_all([lambda: lock.renew(5)]))
    lock.release()
    assert not locks.locked("report")


def test_one_shared_object_held_by_several_threads(locks):
    """Each sees its own hold; a thread that has none may use and release any."""
    lock, gate = locks.shared("config"), threading.Barrier(4)
    tokens = set()

    def work():
        with lock:
            gate.wait()
            tokens.add(lock.token)
            gate.wait()

    threads = run_all([work] * 3)
    gate.wait()
    assert lock.count == 3 and lock.held and lock.check() and lock.token == min(r.token for r in locks.holders("config"))
    gate.wait()
    join_all(threads)
    assert len(tokens) == 3 and lock.count == 0 and not locks.locked("config")


def test_timeout_in_a_thread(locks):
    results = []

    def work():
        try:
            locks.exclusive("report", timeout=0.05).acquire()
        except lockshm.Timeout as error:
            results.append(error.holder.tag)

    with locks.exclusive("report", tag="nightly"):
        join_all(run_all([work] * 4))
    assert results == ["nightly"] * 4


def test_cancel_ends_waits_of_other_threads(locks):
    lock, results = locks.exclusive("report", timeout=None), []

    def work():
        try:
            lock.acquire()
        except lockshm.Cancelled as error:
            results.append(str(error))

    with locks.exclusive("report"):
        threads = run_all([work] * 3)
        until(lambda: len(waiters(locks, "report")) == 3)
        lock.cancel()
        join_all(threads)
        assert not waiters(locks, "report")
        work()
    assert len(results) == 4 and "the wait was cancelled" in results[0]
    with lock:
        assert lock.held


def test_more_waiting_threads_than_pooled_loops(locks):
    granted = []

    def work():
        with locks.exclusive("report", timeout=None):
            granted.append(1)

    with locks.exclusive("report"):
        threads = run_all([work] * 50)
        until(lambda: len(waiters(locks, "report")) == 50)
    join_all(threads)
    assert len(granted) == 50


def test_a_handler_runs_during_a_wait_and_the_wait_goes_on(locks, holder):
    one, calls = holder("report"), []
    previous = signal.signal(signal.SIGALRM, lambda *_: (calls.append(1), len(calls) == 3 and one.kill()))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with locks.exclusive("report", timeout=None):
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert len(calls) >= 3


def test_keyboard_interrupt_ends_a_wait_and_leaves_nothing(locks, child):
    waiter = child(
        """
        lock = locks.exclusive("report", timeout=None)
        say("ready")
        try:
            lock.acquire()
        except KeyboardInterrupt:
            say("interrupted", lock.held, len(locks.holders("report")))
        with locks.exclusive("other", timeout=0):
            say("works")
        sys.stdin.readline()
        """
    )
    with locks.exclusive("report"):
        assert waiter.line() == "ready"
        until(lambda: waiters(locks, "report"))
        waiter.send_signal(signal.SIGINT)
        assert waiter.line() == "interrupted False 1"
        assert waiter.line() == "works"
    with locks.exclusive("report", timeout=0):
        pass


def test_an_interrupt_as_the_grant_arrives_leaves_nothing(locks, child):
    """SIGINT and the release at once, again and again.  One that comes after the grant finds it held."""
    waiter = child(
        """
        for round in range(100):
            lock = locks.exclusive("report", timeout=None)
            sys.stdin.readline()
            try:
                lock.acquire()
                while True:
                    time.sleep(0.001)
            except KeyboardInterrupt:
                if lock.held:
                    lock.release()
            assert not any(request.pid == os.getpid() for request in locks.holders("report"))
            say("interrupted")
        """
    )
    for _ in range(100):
        with locks.exclusive("report", timeout=None):
            print(file=waiter.stdin, flush=True)
            until(lambda: waiters(locks, "report"))
            waiter.send_signal(signal.SIGINT)
        assert waiter.line() == "interrupted"
    status, _, err = waiter.output()
    assert status == 0, err
    assert not locks.holders("report")


def test_a_signal_just_before_the_wait_is_not_missed(locks, child):
    """A timer goes off at each instant between the request and the sleep: an endless wait ends nevertheless."""
    waiter = child(
        """
        class Alarm(Exception):
            pass
        def ring(*_):
            raise Alarm
        signal.signal(signal.SIGALRM, ring)
        keep = locks.exclusive("report")
        keep.acquire()
        lock = locks.exclusive("report", timeout=None, renew=False)
        for round in range(4000):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + round % 100))
                lock.acquire()
            except Alarm:
                pass
        say("ends", len(locks.holders("report")))
        """
    )
    assert waiter.line() == "ends 1"
