"""The workers of one machine, a slot for each: started, watched, replaced when they end early.

A worker that has reached its memory limit asks for a successor by its exit code; one that was
killed gets one too. Any other has logged why it ended, and a successor would end for the same
reason.
"""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Callable

from crawlproj.engine.memory_limit import REPLACE_ME

MOST_REPLACED = 10
WITHIN_S = 300.0
"""A slot whose workers end early that often, within so many seconds, stays empty."""

Process = subprocess.Popen[bytes]


class WorkerSlot:
    """Where one worker runs at a time, and after it its successor."""

    def __init__(self, name: str, start: Callable[[], Process]) -> None:
        self.name = name
        self._start = start
        self._has_lost = False
        self._told = 0
        self._replaced_at: deque[float] = deque(maxlen=MOST_REPLACED)
        self.process = start()

    @property
    def is_running(self) -> bool:
        """True while its worker runs."""
        return self.process.poll() is None

    def tell(self, number: int) -> None:
        """Send its worker this signal, to end it."""
        self._told = number
        if self.is_running:
            self.process.send_signal(number)

    @property
    def _ended_early(self) -> int:
        """The exit code of a worker that has not ended well. One that ended by the signal it was
        told had yet to begin: later on it would have handed in what it held."""
        code = self.process.poll() or 0
        return 0 if code == -self._told else code

    def replace(self) -> str:
        """Start another worker if this one ended before its time; returns what to say of it."""
        code = self.process.poll()
        if code is None or not (code == REPLACE_ME or code < 0):
            return ""
        ended = "reached its memory limit" if code == REPLACE_ME else f"was killed (signal {-code})"
        now = time.monotonic()
        if len(self._replaced_at) == MOST_REPLACED and now - self._replaced_at[0] < WITHIN_S:
            return ""
        self._replaced_at.append(now)
        self._has_lost |= code != REPLACE_ME
        before, self.process = self.process.pid, self._start()
        return f"{self.name}: process {before} {ended}; process {self.process.pid} goes on"

    @property
    def has_lost(self) -> bool:
        """Whether one of its workers has ended without handing in what it held."""
        return self._has_lost or self._ended_early not in (0, REPLACE_ME)

    @property
    def failure(self) -> str:
        """What went wrong at the end, if anything did."""
        code = self._ended_early
        if not code:
            return ""
        often = len(self._replaced_at) == MOST_REPLACED
        why = f", after {MOST_REPLACED} before it: see its log" if often else ""
        return f"{self.name}: process {self.process.pid} ended with {code}{why}"
