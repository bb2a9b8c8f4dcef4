"""Links taken in by the real `Discovery` of a worker, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from crawlproj.config.choices import OFF
from crawlproj.discover.discovery import Discovery
from crawlproj.discover.patterns import Evidence
from crawlproj.discover.quarantine import Quarantine
from crawlproj.discover.ranking import strategy
from crawlproj.discover.rules import Rules
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.shard import Shard
from crawlproj.urls import Url
from crawlproj.worker.exchange import Worker
from tests.contract.mortal import Judged


def discovery_of(
    worker: Worker,
    *,
    make: Callable[..., Discovery] = Discovery,
    ranking: str = "breadth",
    keeps_referer: bool = True,
) -> Discovery:
    """As the scheduler builds it for a crawl that may go anywhere."""
    return make(
        worker,
        Rules("any"),
        strategy(ranking, None),
        lambda host: None,
        quarantine=Quarantine(worker.frontier, Evidence(OFF, 1, 0)),
        keeps_referer=keeps_referer,
    )


class Collecting(Worker):
    """A worker that shows what it has collected for the frontier."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.collected: list[Push] = []

    def push(self, item: Push) -> None:
        before = self.backlog
        super().push(item)
        if self.backlog > before:  # it is not a repeated one
            self.collected.append(item)


def a_worker(frontier: Frontier) -> Collecting:
    return Collecting(frontier, Judged(), connections=4, lease_timeout_s=60)


def an_offline_worker() -> Collecting:
    """One that knows nothing yet and has not met its Redis."""
    shard = Shard(None, "c", 0, Geometry(1000, 0.001))
    return a_worker(Frontier(None, "c", "w", shards=[shard]))


def collected(hrefs: Sequence[str], base: Url, encoding: str = "utf-8") -> list[Push]:
    """What a worker that knows nothing yet would push of a page's links."""
    worker = an_offline_worker()
    discovery_of(worker).follow(hrefs, base, 1, str(base), encoding)
    return worker.collected


def followed(pushes: Iterable[Push]) -> list[str]:
    """The URLs among them, in their order."""
    return [push.key for push in pushes if push.kind == Kind.LINK]


def refused(pushes: Iterable[Push]) -> list[tuple[str, str]]:
    """(reason, what was seen of the link) of those that are no URLs to follow."""
    filtered = (push for push in pushes if push.kind == Kind.FILTERED)
    return [(reason, text) for reason, _, text in (one.key.partition(" ") for one in filtered)]
