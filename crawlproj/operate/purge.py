"""Deletes a crawl: its state, and the seeds that wait for it."""

from __future__ import annotations

from crawlproj.discover.seeds import SeedList, usual_key
from crawlproj.frontier import purging
from crawlproj.frontier.frontier import Frontier
from crawlproj.output.watching import Steps, Watch, unwatched


async def purge(frontier: Frontier, seeds_key: str | None = None, watch: Watch = unwatched) -> None:
    """Forget the crawl, and the seeds that wait at this key, or where they do unless a project says
    otherwise."""
    hosts = Steps(await purging.host_count(frontier))
    watch("Forgetting hosts", hosts)
    await purging.purge(frontier, hosts.step)
    await SeedList(frontier.client, seeds_key or usual_key(frontier.crawl)).purge()
