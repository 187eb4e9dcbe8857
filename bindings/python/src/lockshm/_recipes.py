# SPDX-License-Identifier: MIT
"""Locks: a segment, with what servers do with it in one call: single flight, once, seat."""

from __future__ import annotations

from ._lockshm import Segment


class Locks(Segment):
    """An open segment; see open()."""


class Once: ...
class Seat: ...
class SeatTask: ...
