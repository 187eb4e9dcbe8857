# SPDX-License-Identifier: MIT
"""For tests: locks that no other test and no running server sees."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from typing import Any, Iterator

from . import Locks, NoSegment, destroy, open

_numbers = itertools.count(1)


@contextlib.contextmanager
def private(**options: Any) -> Iterator[Locks]:
    """Locks with a segment of its own, which is removed at the end; options as for open().

    Its ``name`` can be opened in other processes of the test.
    """
    name = f"private.{os.getpid()}.{next(_numbers)}.{secrets.token_hex(4)}"
    locks = open(name, **options)
    try:
        yield locks
    finally:
        locks.close()
        with contextlib.suppress(NoSegment):
            destroy(name)
