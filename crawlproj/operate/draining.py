"""Takes workers out of service by name: each hears of it with its next heartbeat, begins nothing
more, hands in what it holds, leaves and exits with 0, as after a SIGTERM on its own machine."""

from __future__ import annotations

from collections.abc import Collection

from crawlproj.frontier import noticeboard
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.survey import survey
from crawlproj.frontier.worker_names import plain
from crawlproj.worker.identity import read_about


async def drain(frontier: Frontier, names: Collection[str], machine: str | None) -> list[str]:
    """Ask the workers of these names, or all of a machine; returns the names of those that are
    there."""
    if not await frontier.attach():
        return []
    first, *_ = await survey(frontier, with_hosts=False)
    found = [
        worker.name
        for worker in first.workers
        if worker.silent_at_ms > first.now_ms
        and (plain(worker.name) in names or (machine and _machine(worker.about) == machine))
    ]
    if found:
        await noticeboard.ask_to_leave(frontier, found, first.now_ms)
    return sorted(map(plain, found))


def _machine(about: bytes) -> str:
    return str(read_about(about).get("host") or "")
