# SPDX-License-Identifier: MIT
"""The names and calls of other lock packages, over lockshm."""
