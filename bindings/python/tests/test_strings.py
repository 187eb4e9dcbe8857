# SPDX-License-Identifier: MIT
"""Strings that the library gets as C strings: a NUL in one is refused, and does not cut it.  A key may have any bytes."""

import pytest

import lockshm
from lockshm.compat import filelock, redis

CUT = {
    "name": lambda locks: lockshm.open(locks.name + "\0x"),
    "name, create=False": lambda locks: lockshm.open(locks.name + "\0x", create=False),
    "name, any_owner": lambda locks: lockshm.open(locks.name + "\0", any_owner=True),
    "first": lambda locks: lockshm.open("\0" + locks.name),
    "destroy": lambda locks: lockshm.destroy(locks.name + "\0x"),
    "tag": lambda locks: locks.exclusive("key", tag="a\0b"),
    "tag of a reader": lambda locks: locks.shared("key", tag="\0"),
    "tag of once": lambda locks: locks.once("key", 1, print, tag="a\0"),
    "tag of a seat": lambda locks: locks.seat("key", print, tag="a\0"),
    "policy": lambda locks: locks.exclusive("key", redis_policy="fail\0"),
    "redis": lambda locks: lockshm.open(locks.name + ".new", redis="redis://localhost\0.example.org"),
    "redis, a list": lambda locks: lockshm.open(locks.name + ".new", redis=["redis://localhost", "redis://other\0"]),
    "redis_prefix": lambda locks: lockshm.open(locks.name + ".new", redis="redis://localhost", redis_prefix="lk:\0"),
    "redis_policy": lambda locks: lockshm.open(locks.name + ".new", redis="redis://localhost", redis_policy="wait\0"),
    "global_keys": lambda locks: lockshm.open(locks.name + ".new", redis="redis://localhost", global_keys="user:\0,job:"),
    "filelock's segment": lambda locks: (filelock.configure(locks.name + "\0x"), filelock.FileLock("a")),
    "filelock's path": lambda locks: (filelock.configure(locks.name), filelock.FileLock("a\0b").acquire()),
    "redis-py's segment": lambda locks: redis.Redis(locks.name + "\0x"),
}


@pytest.mark.parametrize("what", CUT)
def test_a_nul_is_refused(locks, monkeypatch, what):
    monkeypatch.setattr(filelock, "_segment_name", None)
    with pytest.raises(ValueError, match="NUL|null") as refused:
        CUT[what](locks)
    assert isinstance(refused.value, lockshm.Invalid) == ("name" in what or "segment" in what or what in ("first", "destroy"))
    with locks.exclusive("key", timeout=0):  # the segment is there
        pass
    with pytest.raises(lockshm.NoSegment):
        lockshm.open(locks.name + ".new", create=False)


def test_keys_have_any_bytes(locks):
    with locks.exclusive("a\0b"), locks.exclusive("a"), locks.exclusive(b"a\0c"), redis.Redis(locks).lock("a\0d"):
        assert [locks.locked(key) for key in ("a\0b", "a", b"a\0c", "a\0d", "a\0")] == [True] * 4 + [False]


@pytest.mark.parametrize("call", [lockshm.open, lockshm.destroy])
@pytest.mark.parametrize("name", ["", "/", "a/b", ".hidden", "é", "n" * 201, "a b", "\udcff"])
def test_other_names_that_no_segment_has(call, name):
    with pytest.raises((ValueError, lockshm.Invalid)):
        call(name)


@pytest.mark.parametrize("name", [None, 5, b"name", ["name"]])
def test_other_types(locks, name):
    for call in (lockshm.open, lockshm.destroy):
        with pytest.raises(TypeError):
            call(name)
    for option in ("tag", "redis_policy"):
        if name is not None:
            with pytest.raises(TypeError, match=option):
                locks.exclusive("key", **{option: name})
    for option in ("redis", "redis_prefix", "redis_policy", "global_keys"):
        if name not in (None, ["name"]):
            with pytest.raises((TypeError, lockshm.Invalid)):
                lockshm.open(locks.name + ".new", **{option: name})
