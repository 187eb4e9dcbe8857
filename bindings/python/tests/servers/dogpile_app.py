# SPDX-License-Identifier: MIT
"""A process that uses examples/dogpile_mutex.py; its creator waits at the gate of the test.

Usage: dogpile_app.py FILE    prints the value
"""

import os
import sys

import gate
import lockshm
from dogpile.cache import make_region
from dogpile_mutex import LockshmMutexes


def create():
    with gate.connect() as visit:
        visit.say("creates")
        visit.wait()
    return os.getpid()


locks = lockshm.open(os.environ["LOCKS"])
region = make_region().configure(
    "dogpile.cache.dbm",
    expiration_time=float(os.environ.get("EXPIRES", "3600")),
    arguments={"filename": sys.argv[1]},
    wrap=[LockshmMutexes(locks, timeout=600)],
)
print("value", region.get_or_create("page", create), flush=True)
