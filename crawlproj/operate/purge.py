"""Deletes a crawl: its state, and the seeds that wait for it; or the state of all that have
finished."""

from __future__ import annotations

from typing import Any

from crawlproj.discover.seeds import SeedList, usual_key
from crawlproj.frontier import purging
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import crawls
from crawlproj.output.watching import Steps, Watch, unwatched


async def finished(client: Any) -> list[str]:
    """Crawls that have finished, and that no worker is at."""
    found = [await crawls.read(client, name) for name in await crawls.names(client)]
    return [one.crawl for one in found if one.state == "finished" and not one.workers]


async def purge_state(frontier: Frontier) -> None:
    """Forget a crawl whose frontier is not attached yet; seeds for the next one stay."""
    await frontier.attach()
    await purging.purge(frontier, lambda: None)


async def purge(frontier: Frontier, seeds_key: str | None = None, watch: Watch = unwatched) -> None:
    """Forget the crawl, and the seeds that wait at this key, or where they do unless a project says
    otherwise."""
    hosts = Steps(await purging.host_count(frontier))
    watch("Forgetting hosts", hosts)
    await purging.purge(frontier, hosts.step)
    await SeedList(frontier.client, seeds_key or usual_key(frontier.crawl)).purge()
