# SPDX-License-Identifier: MIT
#
# foreign-redis-py.py SOCKET KEY - the Lock of redis-py, commanded line by line; see redis-support/foreign.h
import sys

import redis
from redis.exceptions import LockError

client = redis.Redis(unix_socket_path=sys.argv[1])
lock = None


def take(ttl, patience):
    global lock
    lock = client.lock(sys.argv[2], timeout=int(ttl) / 1000 or None, sleep=0.01)
    if patience:
        return lock.acquire(blocking=True, blocking_timeout=patience)
    return lock.acquire(blocking=False)


def done(operation, *args):
    try:
        operation(*args)
        return True
    except LockError:
        return False


for line in sys.stdin:
    word, *args = line.split()
    if word == "lock":
        answer = take(args[0], 0)
    elif word == "wait":
        answer = take(args[0], 20)
    elif word == "unlock":
        answer = done(lock.release)
    elif word == "extend":
        answer = done(lock.extend, int(args[0]) / 1000, True)
    print("yes" if answer else "no", flush=True)
