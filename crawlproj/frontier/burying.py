"""Takes back what dead workers held, on one shard, and tells of the URLs that were lost too often.
What is not known to be reported is told again, to the same worker or to the one that buries it."""

from __future__ import annotations

from crawlproj.frontier.messages import Lost, Reclaimed
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import unpack


async def reclaim(shard: Shard, worker: str, reported: int = 0, most: int = 10) -> Reclaimed:
    """Queue again what dead workers held. Of those that this worker was told of here, so many are
    reported."""
    workers, queued, packed, told = await shard.call("reclaim", [most, worker, reported])
    dead = [
        Lost(host.decode(errors="replace"), level, entry) for host, level, entry in unpack(packed)
    ]
    return Reclaimed(workers, queued, dead, told)
