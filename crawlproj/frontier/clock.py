"""A clock for how long something has taken, which goes on while the machine is asleep, where there
is such a clock. What time it is, only Redis says."""

from __future__ import annotations

import time
from functools import partial

clock_s = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds since some moment."""
