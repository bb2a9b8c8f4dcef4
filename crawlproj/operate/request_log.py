"""The request log of an origin: one line a request, with its start and its end.

    start ⇥ end ⇥ host:port ⇥ method ⇥ path ⇥ status ⇥ client port ⇥ user agent

A request starts when its head has arrived and ends when the kernel has taken the last byte of the
reply; both times are the origin's own, in seconds. Politeness is judged by them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

FLUSH_S = 0.05


class Logged(NamedTuple):
    start_s: float
    end_s: float
    host: str
    method: str
    path: str
    status: int
    peer: int
    user_agent: str

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"


class LogWriter:
    """Collects requests and writes them together, soon after the first of them."""

    def __init__(self, path: Path, call_later: Callable[[float, Callable[[], None]], object]):
        self._file = path.open("w", encoding="utf-8", newline="\n")
        self._call_later = call_later
        self._waiting: list[Logged] = []

    def add(self, request: Logged) -> None:
        if not self._waiting:
            self._call_later(FLUSH_S, self.flush)
        self._waiting.append(request)

    def flush(self) -> None:
        self._file.writelines(map(_to_line, self._waiting))
        self._file.flush()
        self._waiting.clear()

    def close(self) -> None:
        self.flush()
        self._file.close()


def read_log(path: Path) -> list[Logged]:
    """All requests logged so far, in the order in which they ended."""
    lines = path.read_text(encoding="utf-8").split("\n")
    # What follows the last newline is empty, or a line still being written.
    return [_from_line(line) for line in lines[:-1]]


def fetch_counts(log: Iterable[Logged]) -> Counter[str]:
    """How often each URL was asked for."""
    return Counter(request.url for request in log)


def smallest_gap_s(log: Iterable[Logged]) -> dict[str, float]:
    """The shortest pause of each host between the end of one request and the next one's start.

    Negative where requests overlapped; hosts with a single request have none.
    """
    last_end_s: dict[str, float] = {}
    gaps: dict[str, float] = {}
    for request in sorted(log):
        if request.host in last_end_s:
            gap_s = request.start_s - last_end_s[request.host]
            gaps[request.host] = min(gap_s, gaps.get(request.host, gap_s))
        last_end_s[request.host] = max(request.end_s, last_end_s.get(request.host, 0.0))
    return gaps


def most_concurrent(log: Iterable[Logged]) -> dict[str, int]:
    """The largest number of requests that each host had at the same time."""
    changes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for request in log:
        changes[request.host] += [(request.start_s, 1), (request.end_s, -1)]
    return {host: _highest(sorted(moves)) for host, moves in changes.items()}


def _highest(moves: list[tuple[float, int]]) -> int:
    level = highest = 0
    for _, change in moves:
        level += change
        highest = max(highest, level)
    return highest


def _to_line(request: Logged) -> str:
    start_s, end_s, host, method, path, status, peer, agent = request
    path, agent = path.replace("\t", "%09"), agent.replace("\t", " ")
    return f"{start_s:.6f}\t{end_s:.6f}\t{host}\t{method}\t{path}\t{status}\t{peer}\t{agent}\n"


def _from_line(line: str) -> Logged:
    start_s, end_s, host, method, path, status, peer, agent = line.split("\t")
    return Logged(float(start_s), float(end_s), host, method, path, int(status), int(peer), agent)
