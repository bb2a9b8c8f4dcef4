"""Numbers that commands take as options: how their text is read, and what to say when it cannot be.

For `type=` of argparse, which shows the name of the option before what is said here.
"""

from __future__ import annotations

import argparse

DAY_S = 86_400
LEAST_MB, MOST_MB = 100, 1_000_000


def seconds(text: str) -> float:
    """A pause: from none to a day."""
    value = _read(text)
    if value is None or not 0 <= value <= DAY_S:
        raise argparse.ArgumentTypeError(f"{text}: give seconds, 0 to {DAY_S}")
    return value


def time_limit(text: str) -> float:
    """Seconds within which something must be done."""
    value = _read(text)
    if value is None or not 0 < value <= DAY_S:
        raise argparse.ArgumentTypeError(f"{text}: give seconds, more than 0, at most {DAY_S}")
    return value


def megabytes(text: str) -> int:
    """What a database may take of memory; with less than the least it cannot work."""
    value = _read(text)
    if value is None or value % 1 or not LEAST_MB <= value <= MOST_MB:
        raise argparse.ArgumentTypeError(f"{text}: give megabytes, {LEAST_MB} to {MOST_MB}")
    return int(value)


def count(text: str) -> int:
    """A whole number, at least one."""
    if not text.isdecimal() or not 0 < len(text) < 16 or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: give a whole number, 1 or more")
    return int(text)


def _read(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
