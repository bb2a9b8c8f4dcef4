"""Crawls under fire: faults of every kind, one after another, and what became of every URL.

Crawls of a demo web follow each other until the time is up. In each, workers reach a Redis that
keeps all it has acknowledged (appendfsync always) through proxies, and are disturbed at random, by
a seed: the same seed gives the same webs and the same faults in the same order. When a crawl has
finished, the origin's log, the files and the frontier are held against what the web is known to
contain (tests/chaos/checker.py), as the frontier was many times a second before.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common import Row, machine, publish, say
from benchmarks.faults import Fault, Over, Storm
from crawlproj.demo import WebSpec
from tests.chaos.checker import Violation
from tests.chaos.harness import KEPT, Trial, trial
from tests.servers.redis import RedisServer, wait_for

DELAY_S = 0.2
WORKERS = 3


@dataclass
class Voyage:
    """One crawl, from its first fault to its end."""

    seed: int
    faults: list[Fault] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    urls: int = 0
    lost: int = 0
    rows: int = 0
    repeated: int = 0
    reclaimed: int = 0
    looks: int = 0


def sail(seed: int, pages: int, until: float) -> Voyage:
    """Crawl one web, disturbed until it is done or the time is up."""
    rng = random.Random(seed)
    spec = WebSpec(seed=seed, hosts=20, pages=pages)
    voyage = Voyage(seed)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        trial(Path(folder), *KEPT, spec=spec, delay_s=DELAY_S) as crawl,
    ):
        storm = Storm(crawl, rng, WORKERS)
        # Who has started waits for Redis, but who starts needs it.
        wait_for(lambda: len(crawl.status()["workers"]) == WORKERS, "all workers", 60)
        for kind in _kinds(storm.kinds, rng):
            if time.monotonic() > until:
                break
            try:
                fault = storm.strike(kind)
            except Over:
                break
            voyage.faults.append(fault)
            say(f"  {fault.kind}: recovered after {fault.recovery_s:.1f} s")
        storm.calm()
        _judge(voyage, crawl)
    say(f"  {voyage.urls:,} URLs, {voyage.lost} lost, {len(voyage.violations)} violations")
    return voyage


def _kinds(kinds: Sequence[str], rng: random.Random) -> Iterator[str]:
    """All of them in some order, again and again."""
    while True:
        yield from rng.sample(kinds, len(kinds))


def _judge(voyage: Voyage, crawl: Trial) -> None:
    for worker in crawl.fleet.workers:
        # One that is started while Redis is away says so and goes: others do the work.
        if worker.wait(timeout_s=300) not in ("finished", "shutdown", "could not start", ""):
            voyage.violations.append(Violation(8, f"a worker failed: {worker.log[-2000:]}"))
    voyage.violations += crawl.violations()
    seen = crawl.evidence()
    wanted = seen.expected.pages | seen.expected.redirects | seen.expected.non_html
    voyage.urls = len(wanted | seen.expected.missing | seen.expected.disallowed)
    voyage.lost = len((wanted - set(seen.pages)) | (seen.expected.missing - set(seen.failures)))
    voyage.rows, voyage.repeated = len(seen.pages), len(seen.pages) - len(set(seen.pages))
    voyage.reclaimed = seen.status["reclaimed"]
    voyage.looks = crawl.watch.samples


def table(voyages: Sequence[Voyage]) -> list[Row]:
    """One row a kind of fault: how often it came, was survived, and how long recovery took."""
    kinds: dict[str, list[tuple[Fault, bool]]] = {}
    for voyage in voyages:
        for fault in voyage.faults:
            kinds.setdefault(fault.kind, []).append((fault, not voyage.violations))
    rows = [_row(kind, kinds[kind]) for kind in sorted(kinds)]
    return [*rows, _row("all", [fault for found in kinds.values() for fault in found])]


def _row(kind: str, found: Sequence[tuple[Fault, bool]]) -> Row:
    times_s = [fault.recovery_s for fault, _ in found] or [0.0]
    return {
        "fault": kind,
        "happened": len(found),
        "survived": sum(survived for _, survived in found),
        "recovery_median_s": statistics.median(times_s),
        "recovery_longest_s": max(times_s),
    }


def totals(voyages: Sequence[Voyage]) -> Row:
    """What became of the URLs, over all crawls."""
    names = ("urls", "lost", "rows", "repeated", "reclaimed", "looks")
    sums = {name: sum(getattr(voyage, name) for voyage in voyages) for name in names}
    return {
        "crawls": len(voyages),
        **sums,
        "violations": sum(len(voyage.violations) for voyage in voyages),
    }


def main() -> None:
    options = _parser().parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    say(f"seed {seed}, {options.minutes:g} minutes")
    until = time.monotonic() + options.minutes * 60
    voyages: list[Voyage] = []
    while time.monotonic() < until:
        say(f"crawl {len(voyages) + 1}: the web of seed {seed + len(voyages)}")
        voyages.append(sail(seed + len(voyages), options.pages, until))
    about = {**_machine(), "seed": seed, **totals(voyages)}
    publish("chaos", about, vars(options), table(voyages))
    broken = [(voyage.seed, one) for voyage in voyages for one in voyage.violations]
    if broken:
        raise SystemExit("\n".join(f"seed {number}: {one}" for number, one in broken))


def _machine() -> Row:
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        RedisServer(Path(folder)) as server,
        server.client() as client,
    ):
        found = machine(client)
    found.pop("pinned")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="[20]")
    parser.add_argument("--seed", type=int, default=None, help="of webs and faults [any]")
    parser.add_argument("--pages", type=int, default=2000, help="of each web [2000]")
    return parser


if __name__ == "__main__":
    main()
