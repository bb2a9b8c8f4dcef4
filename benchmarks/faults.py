"""What can go wrong with a fleet, one method a fault, each waiting until the fleet has recovered.

    storm = Storm(crawl, random.Random(seed), workers=3)
    fault = storm.strike("worker killed")       # and how long the recovery took

Recovered means: what a dead worker held is queued again, or, where nobody has died, another page
was settled after the fault was over.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from crawlproj.failpoints import POINTS
from tests.chaos.harness import CRAWL, TIMEOUT_S, Trial
from tests.chaos.watch import look
from tests.servers.fleet import Worker
from tests.servers.proxy import Proxy
from tests.servers.redis import wait_for

PATIENCE_S = 180.0
"""For anything to happen, on a machine that may be busy."""


class Fault(NamedTuple):
    """A fault that the fleet has lived through."""

    kind: str
    recovery_s: float


class Over(Exception):
    """The crawl has finished: there is nothing left to disturb."""


@dataclass
class Berth:
    """A worker, and the way by which it reaches Redis."""

    proxy: Proxy
    worker: Worker


class Storm:
    """Some workers of a crawl, each with a proxy of its own, and what happens to them."""

    def __init__(self, crawl: Trial, rng: random.Random, workers: int) -> None:
        self._crawl = crawl
        self._rng = rng
        self._client = crawl.server.client()
        self._berths = [self._berth() for _ in range(workers)]
        self._faults: dict[str, Callable[[], float]] = {
            "worker killed": self._kill,
            "worker killed at a failpoint": self._fail,
            "worker stopped for a while": self._stop,
            "worker told to go": self._terminate,
            "Redis killed": self._kill_redis,
            "Redis slow": self._slow,
            "Redis cut off": self._cut,
            "Redis hangs": self._hang,
            "replies lost": self._lose_replies,
            "scripts flushed": self._flush_scripts,
        }

    @property
    def kinds(self) -> list[str]:
        return list(self._faults)

    def strike(self, kind: str) -> Fault:
        """Let one fault of this kind happen, and wait for the recovery; raises Over."""
        self._man()
        ended_at = self._faults[kind]()
        return Fault(kind, time.monotonic() - ended_at)

    def calm(self) -> None:
        """No more faults; whoever is missing comes back to finish the crawl."""
        for berth in self._berths:
            berth.proxy.heal()
        self._man()

    # Faults: each returns when it was over

    def _kill(self) -> float:
        worker = self._pick().worker
        worker.kill()
        return self._await_burial(worker)

    def _fail(self) -> float:
        """A worker that dies by itself, at some step, joins the others."""
        point = f"{self._rng.choice(list(POINTS))}:{self._rng.randint(1, 8)}"
        doomed = self._crawl.start(failpoint=point)
        self._until(lambda: not doomed.is_running, f"it dies at {point}")
        return self._await_burial(doomed)

    def _stop(self) -> float:
        berth = self._pick()
        berth.worker.signal(signal.SIGSTOP)
        time.sleep(self._rng.uniform(0.2, 2) * TIMEOUT_S)
        berth.worker.signal(signal.SIGCONT)
        return self._await_progress()

    def _terminate(self) -> float:
        worker = self._pick().worker
        worker.signal(signal.SIGTERM)
        self._until(lambda: not worker.is_running, "it goes")
        return self._await_burial(worker)

    def _kill_redis(self) -> float:
        self._crawl.server.kill()
        time.sleep(self._rng.uniform(0, 1) * TIMEOUT_S)
        self._crawl.server.start()
        return self._await_progress()

    def _slow(self) -> float:
        proxy = self._pick().proxy
        proxy.delay_s = self._rng.uniform(0.005, 0.1)
        time.sleep(self._rng.uniform(1, 3))
        proxy.heal()
        return self._await_progress()

    def _cut(self) -> float:
        proxy = self._pick().proxy
        proxy.cut()
        time.sleep(self._rng.uniform(0.1, 2) * TIMEOUT_S)
        proxy.heal()
        return self._await_progress()

    def _hang(self) -> float:
        proxy = self._pick().proxy
        proxy.hang()
        time.sleep(self._rng.uniform(0.1, 2) * TIMEOUT_S)
        proxy.heal()
        return self._await_progress()

    def _lose_replies(self) -> float:
        proxy, count = self._pick().proxy, self._rng.randint(1, 5)
        wanted = proxy.lost + count
        proxy.lose_replies(count)
        self._until(lambda: proxy.lost >= wanted, f"{count} lost replies")
        return self._await_progress()

    def _flush_scripts(self) -> float:
        for _ in range(20):
            self._client.script_flush()
            time.sleep(0.02)
        return self._await_progress()

    # The fleet

    def _berth(self) -> Berth:
        proxy = self._crawl.proxy()
        return Berth(proxy, self._crawl.start(through=proxy))

    def _man(self) -> None:
        """Start a worker wherever there is none."""
        for berth in self._berths:
            if not berth.worker.is_running and not self._has_finished():
                berth.worker = self._crawl.start(through=berth.proxy)

    def _pick(self) -> Berth:
        """A worker that has registered."""
        there: list[Berth] = []

        def look() -> bool:
            there[:] = filter(self._is_there, self._berths)
            return bool(there)

        self._until(look, "a worker is there")
        return self._rng.choice(there)

    def _is_there(self, berth: Berth) -> bool:
        return berth.worker.is_running and berth.worker.process.pid in self._crew()

    def _await_burial(self, worker: Worker) -> float:
        ended_at = time.monotonic()
        self._man()
        self._until(lambda: worker.process.pid not in self._crew(), "its leases are taken back")
        return ended_at

    def _await_progress(self) -> float:
        ended_at, before = time.monotonic(), self._done()
        self._until(lambda: self._done() > before, "another page is settled")
        return ended_at

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        wait_for(lambda: condition() or self._has_finished(), what, PATIENCE_S)
        if not condition():
            raise Over

    # The frontier

    def _crew(self) -> set[int]:
        """The process ids of the workers that are registered."""
        return {worker["pid"] for worker in self._crawl.status()["workers"]}

    def _done(self) -> int:
        now = look(self._client, CRAWL)
        return now.counts.get("done", 0) if now else 0

    def _has_finished(self) -> bool:
        now = look(self._client, CRAWL)
        return now is not None and now.state == "finished"
