# SPDX-License-Identifier: MIT
"""A huey of the test, with examples/huey_lock.py; its tasks wait at the gate."""

import os

import gate
import lockshm
from huey import SqliteHuey
from huey_lock import LockshmLocks


class Huey(LockshmLocks, SqliteHuey):
    pass


huey = Huey("test", filename=os.environ["HUEY_FILE"], locks=lockshm.open(os.environ["LOCKS"]))


@huey.task()
@huey.lock_task("nightly")
def nightly(number):
    with gate.connect() as visit:
        visit.say("runs", number=number)
        visit.wait()
    return number
