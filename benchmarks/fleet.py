"""Workers of ours on a demo web, as `polite`, `scaling`, `memory` and `soak` need them.

All workers are up and idle before the first seed arrives, so that none has a head start; what the
origin logged within the time that all of them worked is what counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import redis

from benchmarks.common import Row, cores, empty, pin, redis_calls, redis_cpu_s
from benchmarks.meter import Metered
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.demo.protocol import now_s
from crawlproj.frontier import keys
from crawlproj.operate.request_log import Logged
from tests.servers.redis import RedisServer, wait_for

CRAWL = "site"
WARM_UP_S = 2.0
START_S = 300.0
"""For the last of many workers to be up, where they share one core."""


@dataclass(frozen=True)
class Stretch:
    """What happened between two moments, and what it cost."""

    seconds: float
    pages: list[Logged]
    cpu_s: float
    redis_cpu_s: float
    redis_calls: int
    max_rss_mb: float

    @property
    def pages_per_s(self) -> float:
        return len(self.pages) / self.seconds

    def costs(self) -> Row:
        """What a page cost, as the tables show it."""
        count = len(self.pages)
        return {
            "cores_busy": self.cpu_s / self.seconds,
            "cpu_ms_per_page": 1000 * self.cpu_s / count,
            "redis_cpu_ms_per_page": 1000 * self.redis_cpu_s / count,
            "redis_calls_per_page": self.redis_calls / count,
            "max_rss_mb": self.max_rss_mb,
        }


class Origin(Protocol):
    """What is crawled, while it is served."""

    @property
    def pid(self) -> int: ...

    @property
    def seeds(self) -> list[str]: ...

    def requests(self) -> list[Logged]: ...


def crawl_for_a_while(
    spec: WebSpec, server: RedisServer, client: redis.Redis, **how: Any
) -> tuple[Stretch, list[Logged]]:
    """The same as `crawl_at`, of a web that is made."""
    with DemoServer(spec) as demo:
        return crawl_at(demo, server, client, **how)


def crawl_at(
    origin: Origin,
    server: RedisServer,
    client: redis.Redis,
    *,
    workers: int,
    seconds: float,
    profile: str,
    settings: Mapping[str, Any],
    warm_up_s: float = WARM_UP_S,
    apart: bool = False,
    terminal: int | None = None,
    beside: AbstractContextManager[object] | None = None,
) -> tuple[Stretch, list[Logged]]:
    """Let the workers crawl the web from all its seeds; a stretch of it, warm-up left out, and
    all that the origin answered. Apart, each has a crawl of its own, in a database of its own. They
    speak to a terminal, if there is one; `beside` lasts as long as they work."""
    empty(client)
    with ExitStack() as stack:
        pin(origin.pid, cores()[0])
        crawls = [_database(server, number) for number in range(workers if apart else 1)]
        each = workers // len(crawls)
        crew = [
            worker
            for url in crawls
            for worker in man(
                stack, url, each, profile, "-a", "stay=true", terminal=terminal, **settings
            )
        ]
        if beside is not None:
            stack.enter_context(beside)
        for url in crawls:
            with redis.Redis.from_url(url) as own:
                own.lpush(keys.start_urls(CRAWL), *origin.seeds)
        time.sleep(warm_up_s)
        return _stretch(origin, client, crew, seconds), origin.requests()


def _database(server: RedisServer, number: int) -> str:
    return f"{server.url.removesuffix('/0')}/{number}"


def man(
    stack: ExitStack,
    redis_url: str,
    workers: int,
    profile: str,
    *arguments: str,
    terminal: int | None = None,
    **settings: Any,
) -> list[Metered]:
    """Workers that are up and wait for seeds; they are gone when the stack is left."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
    env = {"REDIS_URL": redis_url, "SCRAPY_PROJECT": profile, "TERM": "xterm-256color"}
    command = worker_command(*arguments, **settings, CRAWL_OUTPUT=folder, CRAWL_RUN_ID="bench")
    crew = [
        stack.enter_context(Metered(command, folder / f"log-{number}", env, terminal=terminal))
        for number in range(workers)
    ]
    registered = keys.workers(CRAWL, 0)
    with redis.Redis.from_url(redis_url) as client:
        wait_for(lambda: client.zcard(registered) == workers, "all workers are there", START_S)
    return crew


def _stretch(
    origin: Origin, client: redis.Redis, crew: Sequence[Metered], seconds: float
) -> Stretch:
    start_s, before = now_s(), (redis_cpu_s(client), redis_calls(client))
    time.sleep(seconds)
    end_s, after = now_s(), (redis_cpu_s(client), redis_calls(client))
    for worker in crew:
        worker.stop()
    ended = [worker.wait() for worker in crew]
    pages = [one for one in origin.requests() if start_s <= one.start_s < end_s]
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


def worker_command(*arguments: str, **settings: Any) -> list[str]:
    """One worker, with these arguments and settings."""
    options = [word for pair in settings.items() for word in ("-s", "{}={}".format(*pair))]
    return [sys.executable, "-m", "scrapy", "crawl", CRAWL, *arguments, *options]
