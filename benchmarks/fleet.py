"""Workers of ours for a fixed time on a demo web, as `polite` and `scaling` need them.

All workers are up and idle before the first seed arrives, so that none has a head start; what the
origin logged within the time that all of them worked is what counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks.common import redis_calls, redis_cpu_s
from benchmarks.meter import Metered
from crawlproj import keys
from crawlproj.demo import DemoServer
from crawlproj.demo.log import Logged
from crawlproj.demo.protocol import now_s
from tests.servers.redis import RedisServer, wait_for

CRAWL = "site"
WARM_UP_S = 2.0
START_S = 60.0


@dataclass(frozen=True)
class Stretch:
    """What happened between two moments, and what it cost."""

    seconds: float
    pages: list[Logged]
    cpu_s: float
    redis_cpu_s: float
    redis_calls: int
    max_rss_mb: float


def run_workers(
    demo: DemoServer,
    server: RedisServer,
    client: redis.Redis,
    *,
    workers: int,
    seconds: float,
    profile: str,
    settings: Mapping[str, Any],
) -> Stretch:
    """Let the workers crawl the demo web from all its seeds; a stretch of it, warm-up left out."""
    client.flushall()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        env = {"REDIS_URL": server.url, "SCRAPY_PROJECT": profile}
        command = _command({**settings, "CRAWL_OUTPUT": folder})
        crew = [
            stack.enter_context(Metered(command, folder / f"log-{number}", env))
            for number in range(workers)
        ]
        registered = keys.workers(CRAWL, 0)
        wait_for(lambda: client.zcard(registered) == workers, "all workers are there", START_S)
        client.lpush(keys.start_urls(CRAWL), *demo.seeds)
        time.sleep(WARM_UP_S)
        return _stretch(demo, client, crew, seconds)


def _stretch(
    demo: DemoServer, client: redis.Redis, crew: Sequence[Metered], seconds: float
) -> Stretch:
    start_s, before = now_s(), (redis_cpu_s(client), redis_calls(client))
    time.sleep(seconds)
    end_s, after = now_s(), (redis_cpu_s(client), redis_calls(client))
    for worker in crew:
        worker.stop()
    ended = [worker.wait() for worker in crew]
    pages = [one for one in demo.requests() if start_s <= one.start_s < end_s]
    if not pages or any(worker.code for worker in ended):
        raise SystemExit(f"a worker failed:\n{crew[0].tail()}")
    return Stretch(
        end_s - start_s,
        pages,
        sum(worker.cpu_s(start_s, end_s) for worker in crew),
        after[0] - before[0],
        after[1] - before[1],
        max(worker.max_rss_mb for worker in ended),
    )


def _command(settings: Mapping[str, Any]) -> list[str]:
    options = [word for pair in settings.items() for word in ("-s", "{}={}".format(*pair))]
    return [sys.executable, "-m", "scrapy", "crawl", CRAWL, "-a", "stay=true", *options]
