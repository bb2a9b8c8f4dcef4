"""A crawl's status as people read it: whole, for a terminal, and in one line. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from crawlproj.operate.host_status import SHOWN_HOSTS, Bound, HostStatus
from crawlproj.operate.pattern_release import PatternStatus
from crawlproj.operate.status import OVER, Status
from crawlproj.operate.table import table
from crawlproj.operate.worker_status import WorkerStatus
from crawlproj.output.summary import ago, duration, size
from crawlproj.plural import counted, plural
from crawlproj.server.memory import Memory, sentence

SHOWN_PATTERNS = 5
SHOWN_REASONS = 6
SHOWN_WORKERS = 20
NUMBER, LABEL = 12, 12

Row: TypeAlias = tuple[str, ...]


def as_text(now: Status) -> str:
    """The status for a terminal, of a crawl that has begun."""
    parts = (_headline(now), _ledger(now), _workers(now), _hosts(now), _held(now), _rest(now))
    return "\n\n".join("\n".join(part) for part in parts if part)


def in_one_line(now: Status) -> str:
    """The same for a line that is written again and again."""
    if now.epoch is None:
        return f"{now.crawl} has not begun yet: without seeds its workers wait {_hint(now)}"
    waiting = now.queued + now.delayed
    left = f", {_about(now.estimate_s)} left at least" if now.estimate_s else ""
    paused = f"; paused: scrapy resume {now.crawl}" if now.state == "paused" else ""
    return (
        f"{now.done:,} done ({now.pages_per_s:,.1f}/s), {waiting:,} queued, {now.leased:,} leased, "
        f"{now.dead:,} dead, {counted(now.hosts, 'host')}{left}{paused}"
    )


def still_finished(now: Status) -> str:
    """The same of a crawl that had finished before the workers came, who find nothing to do."""
    return f"{now.crawl} has finished: its workers wait for seeds {_hint(now)}"


def _hint(now: Status) -> str:
    return f"(scrapy seed {now.crawl} URL)"


def _headline(now: Status) -> list[str]:
    ran = f"{'for' if now.state == 'running' else 'after'} {duration(now.elapsed_s)}"
    ended = f" until {now.finished_at}" if now.finished_at else ""
    return [
        f"{now.crawl}: {now.state} {ran}",
        f"  since {now.started_at}{ended}, epoch {now.epoch}",
        *([f"  {now.unreadable}"] if now.unreadable else []),
    ]


def _ledger(now: Status) -> list[str]:
    """What is known of every URL, and beside it what there is to say about it."""
    remarks = {
        "done": _speed(now),
        "dead": _by_count(now.reasons),
        "filtered": _by_count(now.filtered),
        "queued": _estimate(now),
        "discovered": (
            f"{counted(now.duplicates, 'more link')} to {plural(now.discovered, 'it')}, "
            f"balance {now.balance:,}"
        ),
        "resting": f"of these are to be revisited; {counted(now.revisits, 'revisit')} so far",
        "seeds": "pushed and not taken in yet",
        "reclaimed": "URLs taken back from workers that fell silent",
        "copies": "URLs leased to a second worker, since the first took long",
        "late": "results that came after another worker's, and were refused",
    }
    names = ("done", "dead", "filtered", "queued", "delayed", "leased")
    numbers = {name: getattr(now, name) for name in (*names, "discovered", "reclaimed", "late")}
    numbers |= {"filtered": sum(now.filtered.values()), "seeds": now.seeds_waiting}
    numbers |= {"resting": now.resting, "copies": now.copies}
    others = ("resting", "seeds", "reclaimed", "copies", "late")
    shown = [*names, "discovered", *(name for name in others if numbers[name])]
    return [
        f"  {name:<{LABEL}}{numbers[name]:>{NUMBER},}  {remarks.get(name, '')}".rstrip()
        for name in shown
    ]


def _speed(now: Status) -> str:
    parts = [f"{now.average:,.1f} pages/s", size(now.bytes)]
    if now.pages_per_s:
        parts[0] = f"{now.pages_per_s:,.1f} pages/s now, {now.average:,.1f} on average"
    return ", ".join(parts)


def _estimate(now: Status) -> str:
    if not now.estimate_s:
        return ""
    return f"{_about(now.estimate_s)} at least{what_bounds(now)}"


def what_bounds(now: Status) -> str:
    """What the end of the crawl goes by, as the end of a sentence; empty for all that is queued."""
    if now.estimate_bound == Bound.PAGES:
        return ", then the budget of pages is used up"
    if now.estimate_bound == Bound.HOST and now.slowest:
        return f", for {now.slowest[0].host} cannot be read faster"
    return ""


def _about(seconds: float) -> str:
    return duration(seconds) if seconds >= 10 else f"{seconds:.0f} s"


def _by_count(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    parts = [f"{reason} {count:,}" for reason, count in ranked[:SHOWN_REASONS]]
    others = sum(count for _, count in ranked[SHOWN_REASONS:])
    return ", ".join([*parts, f"others {others:,}"] if others else parts)


# Workers and hosts


def _workers(now: Status) -> list[str]:
    if not now.workers:
        return [] if now.state in OVER else ["  no worker is at it"]
    count = counted(len(now.workers), "worker")
    head = (count, "machine", "pages", "pages/s", "leased", "memory", "heartbeat", "")
    rows = [_worker(worker) for worker in now.workers[:SHOWN_WORKERS]]
    more = len(now.workers) - SHOWN_WORKERS
    rest = [f"    … and {more:,} more: --json"] if more > 0 else []
    return [*_indented(head, rows, range(2, 7)), *rest]


def _worker(worker: WorkerStatus) -> Row:
    beat = "" if worker.heartbeat_s is None else ago(worker.heartbeat_s)
    return (
        worker.name,
        worker.host,
        f"{worker.pages:,}",
        f"{worker.pages_per_s:,.1f}",
        f"{worker.leased:,}",
        size(worker.memory) if worker.memory else "",
        beat,
        _remark(worker),
    )


def _remark(worker: WorkerStatus) -> str:
    if not worker.alive:
        return "silent: its URLs will be queued again"
    return "leaves, once all is handed in" if worker.draining else ""


def _hosts(now: Status) -> list[str]:
    """The busiest and the slowest, each once."""
    known = {host.host: host for host in (*now.busiest[:SHOWN_HOSTS], *now.slowest)}
    if not known:
        return [f"  {counted(now.hosts, 'host')}"]
    head = (counted(now.hosts, "host"), "pages", "queued", "pause", "time left", "")
    return _indented(head, [_host(host) for host in known.values()], range(1, 5))


def _host(host: HostStatus) -> Row:
    failed = f"failed {counted(host.failures, 'time')} in a row" if host.failures else ""
    return (
        host.host,
        f"{host.pages:,}",
        f"{host.queued:,}",
        f"{host.pause_s:.2f} s",
        duration(host.estimate_s) if host.queued else "",
        failed,
    )


def _held(now: Status) -> list[str]:
    if not now.held:
        return []
    rows = [(host.host, _about(host.held_s), host.why) for host in now.held]
    return _indented(("left alone", "for", "because of"), rows, range(1, 2))


def _indented(head: Row, rows: Sequence[Row], numbers: range) -> list[str]:
    """What the first column of the head names, and below it, a little to the right, its rows."""
    below = [(f"  {first}", *rest) for first, *rest in rows]
    return [f"  {line}" for line in table(head, below, numbers)]


# The rest


def _rest(now: Status) -> list[str]:
    return [*_patterns(now.patterns), *_short_of_memory(now), *_seen(now)]


def _patterns(patterns: tuple[PatternStatus, ...]) -> Iterator[str]:
    if patterns:
        yield f"  set aside: {counted(len(patterns), 'URL pattern')} (scrapy patterns)"
    for pattern in patterns[:SHOWN_PATTERNS]:
        yield f"    {pattern_line(pattern)}"


def pattern_line(row: PatternStatus) -> str:
    """A pattern in one line."""
    if row.released_at:
        return f"{row.pattern}  released, {counted(row.urls, 'URL')} until then"
    return f"{row.pattern}  {row.why}, {counted(row.urls, 'URL')}, {row.kept:,} kept"


def _short_of_memory(now: Status) -> Iterator[str]:
    if now.memory.waiting:
        yield f"  {sentence(Memory(now.memory.used, now.memory.limit), now.memory.waiting)}"


def _seen(now: Status) -> Iterator[str]:
    seen = now.seen
    measured = "not yet" if seen.measured_fp is None else f"{seen.measured_fp:.4%}"
    yield (
        f"  seen filter: {seen.items:,} of {seen.capacity:,}, false positives expected "
        f"{seen.expected_fp:.4%}, measured {measured}"
    )
