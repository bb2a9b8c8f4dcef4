"""Points at which a worker can be made to die, to show that nothing is lost when it does.

CRAWL_FAILPOINT=settle:3 in the environment (not a setting) kills the process, as a crash would,
the third time that it gets to `settle`. Without it the points cost a call that does nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "CRAWL_FAILPOINT"
POINTS = {
    "leased": "URLs have just been leased",
    "fetched": "a response has just arrived",
    "pushed": "the links of some pages are in the frontier",
    "written": "the rows of some pages are on disk",
    "settle": "leases are about to be settled or returned",
}


class Failpoint:
    """Kills this process at the given arrival at one point."""

    def __init__(self, point: str, arrivals: int) -> None:
        self._point = point
        self._left = arrivals

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def from_text(text: str) -> Callable[[str], None]:
    """What is called at every point, for a value of the variable such as `settle:3`."""
    if not text:
        return _pass_by
    point, _, arrivals = text.partition(":")
    if point not in POINTS or not arrivals.isdecimal() or int(arrivals) < 1:
        raise SystemExit(
            f"{VARIABLE}={text}: give one of {', '.join(POINTS)}, a colon and a number, 1 or more"
        )
    return Failpoint(point, int(arrivals))


def _pass_by(point: str) -> None:
    pass


reached = from_text(os.environ.get(VARIABLE, ""))
