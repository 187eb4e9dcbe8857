# SPDX-License-Identifier: MIT
"""A plugin of pytest: filelock is the drop-in, for filelock's own tests."""

import os
import sys

import lockshm.compat.filelock

lockshm.compat.filelock.configure(os.environ["LOCKS"])
sys.modules["filelock"] = lockshm.compat.filelock
