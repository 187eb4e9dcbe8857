# SPDX-License-Identifier: MIT
"""The WSGI application of the server tests; its requests stop at the gate of the test, see gate.py."""

import json
import os
from urllib.parse import parse_qs

import gate
import lockshm

locks = lockshm.open(os.environ["LOCKS"])

# With --preload this runs in the master, and its children have copies of the object.
boot = locks.exclusive("boot", timeout=0)
at_boot = os.environ.get("HOLD_AT_BOOT") and boot.acquire()


def number(text):
    return None if text == "none" else float(text)


def hold(key, lease="30", timeout="none", shared=""):
    """Take the key, and keep it until the test says go."""
    make = locks.shared if shared else locks.exclusive
    with gate.connect() as visit:
        lock = make(key, timeout=number(timeout), lease=number(lease), on_lost=lambda lock: visit.say("lost"))
        visit.say("asks")
        with lock as held:
            visit.say("holds", token=held.token)
            visit.wait()
    return "released"


def preloaded():
    """What a worker sees of a lock that the master took before the fork."""
    facts = {"held": boot.held, "locked": boot.locked(), "again": boot.acquire(blocking=False)}
    try:
        boot.release()
    except lockshm.NotOwned:
        facts["release"] = "NotOwned"
    return json.dumps(facts)


def pid():
    return str(os.getpid())


ROUTES = {"/hold": hold, "/preloaded": preloaded, "/pid": pid}


def application(environ, start_response):
    query = {name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
    try:
        status, text = "200 OK", ROUTES[environ["PATH_INFO"]](**query)
    except lockshm.Error as error:
        status, text = "409 Conflict", type(error).__name__
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text.encode()]
