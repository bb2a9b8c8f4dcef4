"""What crawler processes cost, seen from outside: none of them is asked, so all are alike.

The CPU time of each process is sampled while it runs. What counts lies between its first and its
last request as the origin logged them, so that neither starting Python nor shutting down is taken
for crawling.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from benchmarks.common import PROJECT, cores, pin
from crawlproj.demo.protocol import now_s

SAMPLE_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    max_rss_mb: float


class Metered:
    """A crawler on the crawlers' cores, its log, and its CPU time at every moment."""

    def __init__(self, command: Sequence[str], log: Path, env: dict[str, str]) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**os.environ, **env},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        pin(self._process.pid, cores()[1])
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

    def wait(self) -> Ended:
        """Wait for its end; a crawler that fails shows its log."""
        _, status, used = os.wait4(self._process.pid, 0)
        self._done.set()
        self._sampler.join()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._times.append(now_s())
        self._cpu.append(used.ru_utime + used.ru_stime)
        return Ended(self._process.returncode, used.ru_maxrss / 1024)

    def stop(self) -> None:
        """Ask it to end, if it has not: what it cost is told to whoever waits for it first."""
        if self._process.returncode is None:
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
        stat = Path(f"/proc/{self._process.pid}/stat")
        while not self._done.wait(SAMPLE_S):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                return
            self._times.append(now_s())
            self._cpu.append((int(fields[11]) + int(fields[12])) / _TICKS_PER_S)

    def _cpu_at(self, at_s: float) -> float:
        after = bisect_left(self._times, at_s)
        if after == 0:
            return 0.0
        if after == len(self._times):
            return self._cpu[-1]
        before_s, after_s = self._times[after - 1], self._times[after]
        share = (at_s - before_s) / (after_s - before_s) if after_s > before_s else 0.0
        return self._cpu[after - 1] + share * (self._cpu[after] - self._cpu[after - 1])
