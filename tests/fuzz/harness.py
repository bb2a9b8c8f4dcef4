"""Properties that are tried on made-up input: some examples in the normal suite, always the same
ones, and new ones for as long as asked with `make fuzz MINUTES=10`.

    @fuzzed(st.text(), examples=200)
    def test_whatever_the_text_it_is_short(text: str) -> None: ...

A long run divides its minutes evenly among the properties. When one fails, Hypothesis prints the
smallest input that it fails for and keeps it in .hypothesis/, where the next run finds it.
"""

from __future__ import annotations

import functools
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

MINUTES = float(os.environ.get("FUZZ_MINUTES") or 0)
MOST_CPU_S = 10.0
"""What a large input may cost. Linear work needs a hundredth of it, anything quadratic hours."""

Property = Callable[..., None]


class Share:
    """The seconds that each property of a long run gets; set when they have been counted."""

    seconds = 0.0


def fuzzed(*made_of: SearchStrategy[Any], examples: int) -> Callable[[Property], Property]:
    """Try a property on values of these strategies, one for each of its arguments."""

    def decorate(test: Property) -> Property:
        tried = settings(
            max_examples=examples,
            derandomize=not MINUTES,
            database=None if not MINUTES else settings.default.database,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )(given(*made_of)(test))
        return _for_long(tried) if MINUTES else tried

    return decorate


def _for_long(tried: Property) -> Property:
    @functools.wraps(tried)
    def run() -> None:
        until = time.monotonic() + Share.seconds
        while time.monotonic() < until:
            seed(random.getrandbits(64))(tried)()

    # It takes no arguments, whatever the wrapped function says: pytest would look for fixtures.
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


@contextmanager
def linear_time() -> Iterator[None]:
    """Fails if what is done inside costs more CPU than linear work on a large input can."""
    started_s = time.process_time()
    yield
    assert time.process_time() - started_s < MOST_CPU_S
