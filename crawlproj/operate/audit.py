"""How politely each host was treated, from a log of the requests that it got. Pure.

The judge of a crawler is the server: a log that the origin wrote, with the start and the end of
each request, is proof. Our own `pages-*.csv` are evidence only: workers wrote them by their own
clocks, from their side of the network, and they lack robots.txt and whatever failed.

Arithmetic on lines and requests; files, settings and the terminal are the command's business.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappush, heapreplace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from crawlproj.errors import CrawlError
from crawlproj.operate.request_log import Logged, most_concurrent
from crawlproj.politeness.robot_rules import PATH as ROBOTS_TXT

RESOLUTION_S = 0.001
"""The frontier's clock counts milliseconds: a gap may look that much shorter than it was."""

FORMATS = "the demo web's log, JSON lines, a combined log with start and end, or pages-*.csv"

_COMBINED = re.compile(
    r'(?:(?P<host>\S+) )?\S+ \S+ \S+ \[[^\]]*\] "(?P<method>\S+) (?P<path>\S+)[^"]*" '
    r'(?P<status>\d{3}) \S+ "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)" '
    r"(?P<first>\d+(?:\.\d+)?) (?P<second>\d+(?:\.\d+)?)"
)


class Evidence(NamedTuple):
    """The requests of a log, and whether the origin itself has noted them."""

    requests: list[Logged]
    is_from_origin: bool


class Limits(NamedTuple):
    """What was promised to every host."""

    delay_s: float
    per_host: int = 1


class HostAudit(NamedTuple):
    """One host's requests, and which limits they broke."""

    host: str
    requests: int
    smallest_gap_s: float | None
    """Of one connection, from the end of a request to the start of the next; None without two. It
    has had as many connections as there were requests at once, up to those it may have."""
    most_at_once: int
    robots_txt: int
    """Times that it was asked for."""
    robots_first: bool
    broken: tuple[str, ...]


def audit(log: Sequence[Logged], limits: Limits) -> list[HostAudit]:
    """Every host's treatment, the worst first."""
    by_host: defaultdict[str, list[Logged]] = defaultdict(list)
    for request in sorted(log):
        by_host[request.host].append(request)
    at_once = most_concurrent(log)
    found = [_judge(host, own, at_once[host], limits) for host, own in by_host.items()]
    return sorted(found, key=_badness)


def smallest_slot_gap_s(log: Iterable[Logged], slots: int = 1) -> float | None:
    """The shortest rest of a connection to one host, when it may have so many.

    A log does not tell which connection a request belongs to. Each is taken to have used the one
    that had rested longest: if any assignment keeps to a pause, this one does.
    """
    ends_s: list[float] = []
    gaps_s: list[float] = []
    for request in sorted(log):
        if len(ends_s) < slots:
            heappush(ends_s, request.end_s)
        else:
            gaps_s.append(request.start_s - heapreplace(ends_s, max(request.end_s, ends_s[0])))
    return min(gaps_s, default=None)


def _judge(host: str, log: list[Logged], at_once: int, limits: Limits) -> HostAudit:
    connections = max(1, min(at_once, limits.per_host))  # none, if none took time
    gap_s = smallest_slot_gap_s(log, connections)
    # As many as the host may have: a connection may begin while others rest.
    rest_s = smallest_slot_gap_s(log, limits.per_host)
    broken = []
    if rest_s is not None and rest_s < limits.delay_s - RESOLUTION_S:
        broken.append("delay")
    if at_once > limits.per_host:
        broken.append("per_host")
    robots_txt = sum(_asks_for_robots(request) for request in log)
    first = _asks_for_robots(log[0])
    return HostAudit(host, len(log), gap_s, at_once, robots_txt, first, tuple(broken))


def _asks_for_robots(request: Logged) -> bool:
    return request.path == ROBOTS_TXT


def _badness(one: HostAudit) -> tuple[int, float, str]:
    gap_s = float("inf") if one.smallest_gap_s is None else one.smallest_gap_s
    return -len(one.broken), gap_s, one.host


# Logs


def read_evidence(name: str, lines: Iterable[str]) -> Evidence:
    """The requests of a log, in whichever of the known formats its first line is."""
    numbered = enumerate((line.strip("\ufeff\r\n") for line in lines), 1)
    filled = [(number, line) for number, line in numbered if line.strip()]
    if not filled:
        raise CrawlError(f"{name}: no requests in it; give {FORMATS}")
    if _is_our_csv(filled[0][1]):
        return Evidence(list(_from_csv(name, filled)), is_from_origin=False)
    parse = _parser_of(name, filled[0][1])
    return Evidence([_parsed(name, parse, *line) for line in filled], is_from_origin=True)


def _is_our_csv(line: str) -> bool:
    return {"url", "fetched_at", "elapsed_ms"} <= set(line.split(","))


def _parser_of(name: str, line: str) -> Callable[[str], Logged]:
    if line.startswith("{"):
        return _from_json
    if line.count("\t") == len(Logged._fields) - 1:
        return _from_tabs
    if _COMBINED.fullmatch(line):
        return _from_combined
    raise CrawlError(f"{name}: not a fetch log; give {FORMATS}")


def _parsed(name: str, parse: Callable[[str], Logged], number: int, line: str) -> Logged:
    try:
        request = parse(line)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CrawlError(
            f"{name}, line {number}: no request like those before it: {line[:80]!r}"
        ) from None
    if not request.start_s <= request.end_s:
        raise CrawlError(f"{name}, line {number}: ends before it starts: {line[:80]!r}")
    return request


def _from_tabs(line: str) -> Logged:
    start, end, host, method, path, status, peer, agent = line.split("\t")
    return Logged(float(start), float(end), host, method, path, int(status), int(peer), agent)


def _from_json(line: str) -> Logged:
    """`start` and `end` in seconds, `url` or else `host` and `path`; the rest may be missing."""
    record: dict[str, Any] = json.loads(line)
    host, path = record.get("host"), record.get("path")
    if "url" in record:
        host, path = _host_and_path(record["url"])
    if not (isinstance(host, str) and isinstance(path, str)):
        raise ValueError("neither a URL nor a host and a path")
    return Logged(
        float(record["start"]),
        float(record["end"]),
        host,
        str(record.get("method", "GET")),
        path,
        int(record.get("status", 0)),
        int(record.get("peer", 0)),
        str(record.get("user_agent", "")),
    )


def _from_combined(line: str) -> Logged:
    """Two times at the end: start and end, or nginx's `$msec $request_time`, end and duration."""
    found = _COMBINED.fullmatch(line)
    if not found:
        raise ValueError("another format")
    first_s, second_s = float(found["first"]), float(found["second"])
    times = (first_s, second_s) if second_s >= first_s else (first_s - second_s, first_s)
    host, agent = found["host"] or "-", found["agent"]
    return Logged(*times, host, found["method"], found["path"], int(found["status"]), 0, agent)


def _from_csv(name: str, filled: list[tuple[int, str]]) -> Iterator[Logged]:
    rows = csv.DictReader(line + "\n" for _, line in filled)
    for row in rows:
        try:
            yield _from_row(row)
        except (ValueError, KeyError, TypeError):
            number = filled[rows.line_num - 1][0]
            raise CrawlError(f"{name}, line {number}: not a row of pages-*.csv") from None


def _from_row(row: dict[str, str]) -> Logged:
    end_s = datetime.fromisoformat(row["fetched_at"]).timestamp()
    start_s = end_s - int(row["elapsed_ms"]) / 1000
    host, path = _host_and_path(row["url"])
    return Logged(start_s, end_s, host, "GET", path, int(row["status"]), 0, row["worker"])


def _host_and_path(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if not parts.netloc:
        raise ValueError("no absolute URL")
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
