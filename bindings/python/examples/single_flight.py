# SPDX-License-Identifier: MIT
"""A page that is expensive to make: one worker makes it, the others wait and find it in the cache.

    gunicorn -w 4 single_flight:application

If the worker that makes the page is killed half way, exactly the next one makes it; the others go on waiting.
"""

import os
import pathlib
import time

import lockshm

locks = lockshm.open(os.environ.get("LOCKS", "shop"))  # at import: works with --preload and without
cache = pathlib.Path(os.environ.get("CACHE_DIRECTORY", "cache"))


def render(page):
    """Stands for the work."""
    time.sleep(2)
    return f"<h1>{page}</h1>\n".encode()


def cached_page(page):
    file = cache / page

    def look():
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None

    def fill():
        body = render(page)
        fresh = file.with_name(f".{page}.{os.getpid()}")
        fresh.write_bytes(body)
        fresh.rename(file)  # in one step: look() never finds half a page
        return body

    return locks.single_flight(f"page:{page}", look, fill, timeout=30)


def application(environ, start_response):
    page = environ.get("PATH_INFO", "").strip("/")
    if not page.isidentifier():
        start_response("404 Not Found", [])
        return []
    try:
        body = cached_page(page)
    except lockshm.Timeout as error:  # the message names the process in the way
        start_response("503 Service Unavailable", [("Retry-After", "5")])
        return [f"{error}\n".encode()]
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(body)))])
    return [body]
