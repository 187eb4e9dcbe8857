# SPDX-License-Identifier: MIT
"""lockshm.testing."""

import pytest

import lockshm
import lockshm.testing


def test_private_segments_are_apart_and_are_removed():
    with lockshm.testing.private() as one, lockshm.testing.private(keys=64) as two:
        assert one.name != two.name and two.stat()["keys"] < one.stat()["keys"]
        with one.exclusive("report"):
            assert not two.locked("report")
        lockshm.open(one.name, create=False)
    for locks in (one, two):
        with pytest.raises(lockshm.NoSegment):
            lockshm.open(locks.name, create=False)


def test_a_test_may_remove_it_itself():
    with lockshm.testing.private() as locks:
        lockshm.destroy(locks.name)


def test_it_is_removed_after_a_failure():
    with pytest.raises(KeyError), lockshm.testing.private() as locks:
        raise KeyError
    with pytest.raises(lockshm.NoSegment):
        lockshm.open(locks.name, create=False)
