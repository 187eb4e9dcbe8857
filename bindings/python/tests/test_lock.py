# SPDX-License-Identifier: MIT
"""Lock objects in one thread: forms of acquire, modes, leases, cooldowns, damage marks."""

import copy
import math
import os
import pickle
import threading

import pytest

import lockshm
from conftest import until, waiters


def test_with_gives_the_object_and_holds_while_inside(locks):
    lock = locks.exclusive("report")
    with lock as hold:
        assert hold is lock and lock.held and lock.locked() and locks.locked("report")
        assert lock.count == 1 and lock.token > 0 and 0 < lock.remaining <= 31
        (request,) = locks.holders("report")
        assert (request.state, request.mode, request.token) == ("holding", "exclusive", lock.token)
    assert not lock.held and not locks.locked("report") and lock.count == 0 and lock.remaining == 0.0


def test_another_object_of_the_key_is_another_request(locks):
    with locks.exclusive("report", tag="nightly"), pytest.raises(lockshm.Busy) as refused:
        locks.exclusive("report", timeout=0).acquire()
    assert refused.value.holder.tag == "nightly" and refused.value.key == "report"


@pytest.mark.parametrize("arguments", [(False,), (True, 0), (True, 0.01)])
def test_a_named_bound_gives_false(locks, arguments):
    lock = locks.exclusive("report")
    with locks.exclusive("report", tag="nightly"):
        assert lock.acquire(*arguments) is False
        assert lock.holder.tag == "nightly"
    assert lock.acquire(*arguments) is True
    lock.release()


def test_keywords_of_acquire(locks):
    lock = locks.exclusive("report")
    assert lock.acquire(blocking=True, timeout=-1, poll_interval=0.5)
    lock.release()
    assert lock.acquire(timeout=None)
    lock.release()
    assert lock.acquire(blocking=False)
    lock.release()


def test_arguments_of_threading_lock(locks):
    """Each value does what it does there, or names itself: those are the calls of wrappers."""
    tries = [(False,), (0,), (False, -1), (False, -1.0), (True, 0)]
    for arguments in [*tries, (), (True,), (1,), (True, -1), (True, -1.0), (True, 5), (True, True)]:
        ours, theirs = locks.exclusive("report", timeout=0.01), threading.Lock()
        assert ours.acquire(*arguments) is theirs.acquire(*arguments) is True, arguments
        if arguments in tries:
            assert ours.acquire(*arguments) is theirs.acquire(*arguments) is False, arguments
        ours.release()
    for arguments in [(False, 5), (False, 0), (True, -2), (True, -0.5), (True, math.nan), (True, "5"), (True, []), (1, 2, 3)]:
        errors = []
        for lock in (locks.exclusive("report"), threading.Lock()):
            with pytest.raises((TypeError, ValueError)) as refused:
                lock.acquire(*arguments)
            errors.append(type(refused.value))
        assert errors[0] is errors[1], arguments
    assert not locks.locked("report")


def test_without_a_named_bound_a_refusal_raises(locks):
    lock = locks.exclusive("report", timeout=0.01)
    with locks.exclusive("report"):
        with pytest.raises(lockshm.Timeout) as refused:
            lock.acquire()
        with pytest.raises(lockshm.Timeout), lock:
            pass
    assert not isinstance(refused.value, lockshm.Busy) and isinstance(refused.value, TimeoutError)
    assert refused.value.waited >= 0.01


def test_upgrade_and_downgrade(locks):
    reader, other = locks.shared("report"), locks.shared("report")
    with reader:
        with other, pytest.raises(lockshm.Busy, match=r"'report': no upgrade.*: held shared by pid \d+ ") as refused:
            reader.upgrade()
        assert refused.value.holder.pid == os.getpid() and refused.value.key == "report"
        token = reader.token
        reader.upgrade()
        assert reader.token > token and other.acquire(blocking=False) is False
        reader.downgrade()
        with other:
            pass


def test_an_upgrade_that_a_waiter_refuses(locks, child):
    with locks.shared("report") as reader:
        waiter = child("locks.exclusive('report', timeout=None).acquire()\nsay('granted')")
        until(lambda: waiters(locks, "report"))
        with pytest.raises(lockshm.Busy, match=rf"awaited exclusive by pid {waiter.pid} "):
            reader.upgrade()
    assert waiter.line() == "granted"


def test_a_refused_upgrade_after_close(locks):
    with locks.shared("report") as reader, locks.shared("report"):
        locks.close()
        with pytest.raises(lockshm.Busy, match="'report'"):
            reader.upgrade()


def test_strict_hold_has_no_end(locks):
    with locks.exclusive("report", lease=None) as hold:
        assert hold.remaining == hold.check() == hold.lease == math.inf
        assert locks.holders("report")[0].expires_in is None


def test_cooldown_keeps_the_key_closed(locks):
    lock, other = locks.exclusive("report"), locks.exclusive("report", timeout=0)
    lock.acquire()
    lock.release(cooldown=3600)
    assert locks.locked("report") and not lock.held
    with pytest.raises(lockshm.Busy, match=r"cooling down for another (59|60) min") as refused:
        other.acquire()
    assert refused.value.holder.state == "cooling"


def test_cooldown_is_for_the_last_release_of_an_exclusive_hold(locks):
    lock, reader = locks.exclusive("report", reentrant=True), locks.shared("config")
    with lock, reader:
        with lock, pytest.raises(ValueError, match="last release"):
            lock.release(cooldown=1)
        with pytest.raises(ValueError, match="exclusive"):
            reader.release(cooldown=1)
        assert lock.held and reader.held


def test_release_of_what_is_not_held(locks):
    lock = locks.exclusive("report")
    with pytest.raises(lockshm.NotOwned, match="'report': not held: never acquired through this lock object"):
        lock.release()
    lock.acquire()
    lock.release()
    with pytest.raises(lockshm.NotOwned, match="'report': not held: released already"):
        lock.release()
    for call in (lock.release, lock.check, lock.renew, lock.upgrade, lock.downgrade, lock.acknowledge):
        with pytest.raises(lockshm.NotOwned):
            call()
    with pytest.raises(RuntimeError):
        lock.token  # noqa: B018
    with pytest.raises(lockshm.NotOwned), lock:
        lock.release()


def test_an_exception_in_the_body_is_not_replaced(locks):
    lock = locks.exclusive("report")
    with pytest.raises(KeyError), lock:
        lock.release()
        raise KeyError
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not locks.locked("report")


def test_str_and_bytes_keys(locks):
    with locks.exclusive("réport"):
        assert locks.locked("réport".encode()) and not locks.locked("report")
    with locks.exclusive(b"\x00\xff") as hold:
        assert hold.key == b"\x00\xff"


def test_damage_mark(locks, holder):
    holder("ledger", "robust=True, tag='nightly'").kill_and_wait()
    lock = locks.exclusive("ledger", robust=True)
    with lock:
        previous = lock.damage
        assert (previous.status, previous.tag) == ("OWNER_DIED", "nightly") and previous.token < lock.token
        lock.acknowledge()
        assert lock.damage is None
    with lock:
        assert lock.damage is None


def test_holders_then_waiters_without_the_dead(locks, holder, child):
    one = holder("report", "tag='first'")
    two = child("locks.shared('report', tag='second', timeout=None).acquire()\n")
    until(lambda: waiters(locks, "report"))
    first, second = locks.holders("report")
    assert (first.state, first.mode, first.pid, first.tag) == ("holding", "exclusive", one.pid, "first")
    assert first.token == one.token and first.age >= 0 and first.expires_in > 0 and first.name
    assert (second.state, second.mode, second.pid, second.tag) == ("waiting", "shared", two.pid, "second")
    assert second.token == 0 and second.age >= 0 and second.expires_in is None and second.name
    two.kill()
    until(lambda: len(locks.holders("report")) == 1)
    assert locks.holders("nothing") == []


def test_locks_is_picklable_and_a_lock_is_not(locks):
    again = pickle.loads(pickle.dumps(locks))
    with again.exclusive("report"):
        assert locks.locked("report")
    for refuse in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="Lock"):
            refuse(locks.exclusive("report"))


def test_exceptions_are_picklable(locks):
    with locks.exclusive("report", tag="nightly"), pytest.raises(lockshm.Busy) as refused:
        locks.exclusive("report", timeout=0).acquire()
    again = pickle.loads(pickle.dumps(refused.value))
    assert str(again) == str(refused.value) and again.holder == refused.value.holder
    lost = pickle.loads(pickle.dumps(lockshm.Lost("gone", 1, 2)))
    assert (str(lost), lost.token, lost.lost_to) == ("gone", 1, 2)


def test_attributes_and_repr(locks):
    lock = locks.shared("report", timeout=None, lease=10)
    assert (lock.key, lock.mode, lock.timeout, lock.lease) == ("report", "shared", math.inf, 10.0)
    assert "shared 'report'" in repr(lock) and locks.name in repr(lock) and locks.name in repr(locks)
    with pytest.raises(AttributeError):
        lock.anything = 1


def test_a_with_block_closes(locks, child):
    with lockshm.open(locks.name) as own:
        assert isinstance(own, lockshm.Locks)
        lock = own.exclusive("report")
        lock.acquire()
    assert lock.held
    lock.release()
    for call in (lock.acquire, own.__enter__):
        with pytest.raises(lockshm.Invalid, match="closed"):
            call()
    with pytest.raises(KeyError), lockshm.open(locks.name):
        raise KeyError
    assert not locks.locked("report")
    one = child(
        """
        before = len(os.listdir("/proc/self/fd"))
        with lockshm.open(locks.name) as own:
            own.exclusive("report").acquire(False)
            assert len(os.listdir("/proc/self/fd")) > before
        say("closed", len(os.listdir("/proc/self/fd")) - before)
        """,
        "-Wignore",
    )
    assert one.line() == "closed 0"


def test_close_refuses_new_requests_and_keeps_holds(locks):
    lock = locks.exclusive("report")
    with lock:
        locks.close()
        assert lock.held
    for call in (lock.acquire, lock.locked, locks.stat, lambda: locks.exclusive("report").acquire()):
        with pytest.raises(lockshm.Invalid, match="closed"):
            call()


def test_opening(locks):
    with pytest.raises(lockshm.NoSegment) as missing:
        lockshm.open("no-such-segment." + locks.name, create=False)
    assert isinstance(missing.value, FileNotFoundError) and "no-such-segment" in str(missing.value)
    with pytest.raises(lockshm.Invalid, match="name"):
        lockshm.open("a/b")
    with pytest.raises(lockshm.Invalid):
        lockshm.open("capacity." + locks.name, keys=2**31)


def test_a_removed_segment(locks):
    lock = locks.exclusive("report")
    with lock:
        lockshm.destroy(locks.name)
    with pytest.raises(lockshm.NoSegment):
        lock.acquire()
    with pytest.raises(lockshm.NoSegment):
        lockshm.destroy(locks.name)


def test_full_table():
    with lockshm.testing.private(keys=8, requests=4096) as small:
        held = [small.exclusive(str(number)) for number in range(4096)]
        with pytest.raises(lockshm.Full, match="keys") as full:
            for lock in held:
                lock.acquire()
        assert full.value.table == "keys"
        for lock in held:
            if lock.held:
                lock.release()
