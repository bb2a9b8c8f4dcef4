"""A clock that measures how long something took. Where the system has one, it goes on while the
machine is asleep. The time of day comes from Redis alone."""

from __future__ import annotations

import time
from functools import partial

clock_s = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds since some moment."""
