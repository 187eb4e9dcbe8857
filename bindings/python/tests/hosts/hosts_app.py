# SPDX-License-Identifier: MIT
"""The WSGI application of test_gunicorn.py: each request adds to a file under a global key."""

import os
import pathlib

import lockshm

locks = lockshm.open(os.environ["HOST"], create=False)
count = pathlib.Path(os.environ["COUNT"])


def application(environ, start_response):
    with locks.exclusive("gunicorn", global_=True, timeout=120):
        n = int(count.read_text()) + 1
        count.write_text(str(n))
    text = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]
