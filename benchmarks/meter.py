"""What crawler processes cost, seen from outside: none of them is asked, so all are alike.

The CPU time of each process is sampled while it runs. What counts lies between its first and its
last request as the origin logged them, so that neither starting Python nor shutting down is taken
for crawling.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import NamedTuple, Self

from benchmarks.common import PROJECT, cores, pin
from crawlproj.demo.protocol import now_s

SAMPLE_S = 0.02
GRACE_S = 5.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    max_rss_mb: float


class Metered:
    """A crawler on the crawlers' cores, its log, and its CPU time at every moment."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        env: dict[str, str],
        on: set[int] | None = None,
        terminal: int | None = None,
    ) -> None:
        """On these cores; what it says goes to a terminal, if that is given, instead of the log."""
        self.log = log
        self.stopped_s: float | None = None
        """When it was told to end; none for one that came to its end."""
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**os.environ, **env},
                stdout=output if terminal is None else terminal,
                stderr=subprocess.STDOUT,
            )
        pin(self._process.pid, cores()[1] if on is None else on)
        self._times: list[float] = [now_s()]
        self._cpu: list[float] = [0.0]
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True for one that is gone before anyone has waited for it."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, limit_s: float = math.inf) -> Ended:
        """Wait for its end; after so long it is told to, and soon after it is killed."""
        with self._told_to_end_after(limit_s):
            _, status, used = os.wait4(self._process.pid, 0)
        self._done.set()
        self._sampler.join()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._times.append(now_s())
        self._cpu.append(used.ru_utime + used.ru_stime)
        return Ended(self._process.returncode, used.ru_maxrss / 1024)

    @contextmanager
    def _told_to_end_after(self, limit_s: float) -> Iterator[None]:
        timers = []
        if limit_s < math.inf:
            timers = [Timer(limit_s, self.stop), Timer(limit_s + GRACE_S, self._process.kill)]
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    def stop(self) -> None:
        """Ask it to end, if it has not: what it cost is told to whoever waits for it first."""
        if self._process.returncode is None:
            self.stopped_s = now_s()
            os.kill(self.pid, signal.SIGTERM)

    def cpu_s(self, start_s: float, end_s: float) -> float:
        """The CPU time it used between two moments."""
        return self._cpu_at(end_s) - self._cpu_at(start_s)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            self.wait()

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_S):
            try:
                used_s = cpu_s_of(self._process.pid)
            except OSError:
                return
            self._times.append(now_s())
            self._cpu.append(used_s)

    def _cpu_at(self, at_s: float) -> float:
        after = bisect_left(self._times, at_s)
        if after == 0:
            return 0.0
        if after == len(self._times):
            return self._cpu[-1]
        before_s, after_s = self._times[after - 1], self._times[after]
        share = (at_s - before_s) / (after_s - before_s) if after_s > before_s else 0.0
        return self._cpu[after - 1] + share * (self._cpu[after] - self._cpu[after - 1])


def cpu_s_of(pid: int) -> float:
    """The CPU time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
