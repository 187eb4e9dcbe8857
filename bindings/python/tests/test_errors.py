# SPDX-License-Identifier: MIT
"""Messages: what is wrong, in terms of this interface."""

import os
import pathlib
import re

import pytest

import lockshm
from conftest import fork

BAD_OPTIONS = [
    ({"timeout": -1}, ValueError, "timeout is -1, must be seconds"),
    ({"timeout": float("nan")}, ValueError, "timeout is nan"),
    ({"timeout": 1e12}, ValueError, "ten years"),
    ({"timeout": 10**400}, ValueError, "timeout must be seconds"),
    ({"timeout": "5"}, TypeError, "timeout must be a real number of seconds, or None, not <class 'str'>"),
    ({"lease": "5"}, TypeError, "lease must be a real number"),
    ({"max_hold": "5"}, TypeError, "max_hold must be a real number"),
    ({"lease": -3}, ValueError, "lease is -3"),
    ({"lease": 0}, ValueError, "0.2 s at least"),
    ({"lease": 0.1}, ValueError, "renew=False"),
    ({"lease": 0.0001, "renew": False}, ValueError, "0.001 s at least"),
    ({"lease": None, "renew": True}, ValueError, "renew=True needs a lease"),
    ({"lease": 1, "renew": False, "max_hold": 5}, ValueError, "max_hold"),
    ({"tag": "x" * 31}, ValueError, "up to 30 bytes"),
    ({"tag": 5}, TypeError, "a tag must be str"),
    ({"on_lost": 5}, TypeError, "on_lost is not callable"),
    ({"ttl": 5}, TypeError, "unexpected keyword argument 'ttl'"),
]


@pytest.mark.parametrize(("options", "kind", "words"), BAD_OPTIONS)
def test_options(locks, options, kind, words):
    for make in (locks.exclusive, locks.shared):
        with pytest.raises(kind, match=words):
            make("report", **options)


@pytest.mark.parametrize(
    ("key", "kind", "words"),
    [
        ("", ValueError, "1 to 65535 bytes, this one 0"),
        (b"k" * 65536, ValueError, "this one 65536"),
        (5, TypeError, "str or bytes, not <class 'int'>"),
        ("\ud800", UnicodeEncodeError, "surrogates"),
    ],
)
def test_keys(locks, key, kind, words):
    for call in (locks.exclusive, locks.shared, locks.locked, locks.holders):
        with pytest.raises(kind, match=words):
            call(key)


def test_number_of_arguments(locks):
    lock = locks.exclusive("report")
    for call in (
        locks.exclusive,
        lambda: locks.exclusive("a", "b"),
        lambda: lock.acquire(True, 1, 2),
        lambda: lock.acquire(patience=1),
        lambda: lock.release(1, 2),
        lambda: lock.release(pause=1),
        lambda: lock.renew(1, 2),
        lambda: type(lock)(),
    ):
        with pytest.raises(TypeError):
            call()


def test_arguments_of_acquire(locks):
    lock = locks.exclusive("report")
    with pytest.raises(ValueError, match="blocking=False"):
        lock.acquire(False, 5)
    with pytest.raises(ValueError, match="timeout is -2"):
        lock.acquire(timeout=-2)
    with pytest.raises(ValueError, match="cooldown is -1"):
        lock.release(cooldown=-1)
    with pytest.raises(TypeError, match="timeout must be a real number"):
        lock.acquire(timeout="5")
    with pytest.raises(TypeError, match="cooldown must be a real number"):
        lock.release(cooldown="5")
    with lock, pytest.raises(ValueError, match="0.001 s"):
        lock.renew(0)
    assert not lock.held


@pytest.mark.parametrize("word", ["keys", "requests", "owners", "permissions"])
def test_capacities(locks, word):
    name = f"{locks.name}-new"
    for value in (-1, -(2**70), 2**40, 2**70, 1.5, True, "many"):
        with pytest.raises(lockshm.Invalid, match=f"{word} is .*, must be "):
            lockshm.open(name, **{word: value})
    for value in ({}, b"1", object()):
        with pytest.raises(TypeError, match=f"{word} must be str, int, float, bool, or a list of str, not <class"):
            lockshm.open(name, **{word: value})
    with pytest.raises(lockshm.NoSegment):
        lockshm.open(name, create=False)


def test_capacities_count_for_a_new_segment_only(locks):
    name = f"{locks.name}-new"
    try:
        made = lockshm.open(name).stat()
        assert (made["keys"], made["requests"], made["owners"]) == (16384, 16384, 1024)
        assert lockshm.open(name, keys=99, requests=99, owners=99).stat()["requests"] == 16384
        lockshm.destroy(name)
        assert lockshm.open(name, requests=99).stat()["requests"] == 99
    finally:
        lockshm.destroy(name)


def test_a_refusal_names_the_holder(locks, holder):
    one = holder("report", "tag='nightly'")
    with pytest.raises(lockshm.Timeout) as refused:
        locks.exclusive("report", timeout=0.05).acquire()
    expected = rf"'report': not granted in 0.05 s: held exclusive by pid {one.pid} \(python3[.\d]*\) 'nightly' for [\d.e-]+ s"
    assert re.fullmatch(expected, str(refused.value))
    assert refused.value.holder.pid == one.pid and refused.value.holder.token == one.token
    with pytest.raises(lockshm.Busy, match="'report': not free: held exclusive by pid"):
        locks.exclusive("report", timeout=0).acquire()


def test_a_refusal_by_this_process(locks):
    with locks.exclusive("report"), pytest.raises(lockshm.Busy, match=rf"by pid {os.getpid()} \([^)]*\) for"):
        locks.exclusive("report", timeout=0).acquire()


def test_a_shared_holder(locks):
    with locks.shared("config"), pytest.raises(lockshm.Busy, match="held shared by pid"):
        locks.exclusive("config", timeout=0).acquire()


def test_a_segment_of_another_user(locks):
    file = pathlib.Path("/dev/shm", locks.name.lstrip("/"))
    file.chmod(0)

    def run():
        if os.geteuid() == 0:
            os.setuid(65534)
        with pytest.raises(lockshm.Denied, match=r"Permission denied\.  Run as the user.*permissions=0o660.*any_owner=True"):
            lockshm.open(locks.name, create=False)

    assert fork(run) == 0
    file.chmod(0o600)  # an ordinary user has to open it to remove it


def test_classes_say_where_they_belong():
    assert lockshm.Timeout.__module__ == "lockshm" and issubclass(lockshm.Busy, lockshm.Timeout)
    for kind in (lockshm.Timeout, lockshm.NotOwned, lockshm.Lost, lockshm.Full, lockshm.NoSegment, lockshm.Denied):
        assert issubclass(kind, lockshm.Error)
    assert not issubclass(lockshm.Lost, lockshm.NotOwned) and not issubclass(lockshm.NoSegment, lockshm.Timeout)
