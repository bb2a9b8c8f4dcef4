"""A site whose pages take as long as a test says, and workers that have their hands full."""

from __future__ import annotations

from typing import Any

from tests.chaos.harness import SETTINGS
from tests.servers.fleet import Fleet, Worker
from tests.servers.origin import Origin, Reply, Route

PAGES = 60
AT_ONCE = 4
SLOW = {"CONCURRENT_REQUESTS": AT_ONCE, "POLITENESS_ROBOTS": False}
"""In the engine; as many are leased ahead and wait in the worker's hands."""

STEADY = {"FRONTIER_LEASE_TIMEOUT": 12}
"""Looks for dead workers every three seconds, and is not taken for one on a busy machine."""


class SlowSite:
    """A root and the pages it links to, each of which takes its time."""

    def __init__(self) -> None:
        self.delay_s = 0.5
        links = "".join(f"<a href=/{number}>x</a>" for number in range(PAGES))
        self._root: dict[str, Route] = {"/": Reply(body=links.encode())}
        self._page = b"<title>slow</title>"

    def origin(self) -> Origin:
        return Origin(self._root, default=lambda _: Reply(body=self._page, delay_s=self.delay_s))


def start(
    fleet: Fleet,
    origin: Origin,
    name: str,
    settings: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
) -> Worker:
    """A worker on the slow site; its name is what the origin hears of it."""
    return fleet.start(
        {**SETTINGS, **SLOW, "USER_AGENT": name, **(settings or {})},
        env=env,
        seeds=origin.url("/"),
        delay=0,
        per_host=3 * AT_ONCE,
    )
