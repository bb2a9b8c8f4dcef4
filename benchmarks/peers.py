"""One worker of ours beside Scrapy, scrapy-redis, crawlee and a bare asyncio loop, on two webs.

`made`: one host, 11 KB and 57 links a page, 30 of them navigation. `real`: the HTML pages of a
documentation package of Debian, where apt-get is there. Both are served from memory. All do the
same work: every page once, its title and links extracted, a row of CSV each, as many connections
at a time. Ours runs the `fast` profile with everything on: leases, ledger, seen filter,
politeness, CSV feed.

The others live in environments of their own below ~/.cache/crawlproj-bench, made by the first run;
crawlee for Node where npm is there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Protocol

import redis

from benchmarks import environments, rounds, stats
from benchmarks.common import PROJECT, Row, cores, empty, pin, redis_calls, redis_cpu_s
from benchmarks.meter import Metered
from benchmarks.static import StaticServer
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import FLUSH_S, Logged
from tests.servers.redis import RedisServer

CRAWLERS = PROJECT / "benchmarks" / "crawlers"
YARDSTICK = "scrapy-redis"
NEARLY_ALL = 0.9
"""Share of the pages that each must fetch; real ones have links on which some stumble."""
MADE_KB = WebSpec.bench().page_bytes / 1000
LOGGED_S = 5 * FLUSH_S
"""After which an origin has written what it answered."""


@dataclass(frozen=True)
class Task:
    """What every contestant is given."""

    seed: str
    concurrency: int
    folder: Path
    redis_url: str

    @property
    def words(self) -> list[str]:
        return [self.seed, str(self.concurrency), str(self.folder / "items.csv")]


def ours(task: Task) -> list[str]:
    settings = {"CRAWL_OUTPUT": task.folder, "CONCURRENT_REQUESTS": task.concurrency}
    options = [word for pair in settings.items() for word in ("-s", "{}={}".format(*pair))]
    command = [sys.executable, "-m", "scrapy", "crawl", "site", "-a", f"seeds={task.seed}"]
    return [*command, *options]


def bare(task: Task) -> list[str]:
    return [sys.executable, "-m", "benchmarks.crawlers.bare", *task.words]


def _scrapy() -> str:
    packages = [f"{name}=={version(name)}" for name in ("scrapy", "scrapy-redis", "redis")]
    return environments.python("scrapy", *packages)


def scrapy(task: Task) -> list[str]:
    return [_scrapy(), str(CRAWLERS / "with_scrapy.py"), *task.words]


def scrapy_redis(task: Task) -> list[str]:
    return [*scrapy(task), task.redis_url]


def crawlee(task: Task) -> list[str]:
    python = environments.python("crawlee", "crawlee[parsel]")
    return [python, str(CRAWLERS / "with_crawlee.py"), *task.words]


def crawlee_node(task: Task) -> list[str] | None:
    folder = environments.node("crawlee-node", "@crawlee/cheerio")
    if folder is None:
        return None
    script = shutil.copy(CRAWLERS / "with_crawlee.mjs", folder)
    return ["node", str(script), *task.words]


CONTESTANTS: dict[str, Callable[[Task], list[str] | None]] = {
    "ours": ours,
    YARDSTICK: scrapy_redis,
    "scrapy": scrapy,
    "crawlee": crawlee,
    "crawlee-node": crawlee_node,
    "bare": bare,
}


class Origin(Protocol):
    """What both webs offer."""

    @property
    def pid(self) -> int: ...

    def requests(self) -> list[Logged]: ...


@dataclass
class Web:
    """An origin that is served, and what is to be fetched of it."""

    name: str
    origin: Origin
    seed: str
    pages: int
    page_kb: float
    answered: int = 0

    def new_requests(self) -> list[Logged]:
        """Those since it was last asked."""
        everything = self.origin.requests()
        new, self.answered = everything[self.answered :], len(everything)
        return new


def made(stack: ExitStack, options: argparse.Namespace) -> Web:
    demo = stack.enter_context(DemoServer(WebSpec.bench(options.pages)))
    return Web("made", demo, demo.seeds[0], options.pages, MADE_KB)


def real(stack: ExitStack, options: argparse.Namespace) -> Web | None:
    folder = environments.documentation()
    if folder is None:
        return None
    server = stack.enter_context(StaticServer(folder))
    return Web("real", server, server.seed, server.pages, server.bytes / server.pages / 1000)


WEBS: dict[str, Callable[[ExitStack, argparse.Namespace], Web | None]] = {
    "made": made,
    "real": real,
}


class Arena:
    """The webs and a Redis, in which contestants run one after the other."""

    def __init__(self, webs: Sequence[Web], concurrency: int) -> None:
        self._webs = {web.name: web for web in webs}
        self._concurrency = concurrency

    def run(self, server: RedisServer, client: redis.Redis, case: tuple[str, str]) -> Iterator[Row]:
        """One crawl of one contestant; what it took."""
        web, name = self._webs[case[0]], case[1]
        empty(client)
        client.config_resetstat()
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            task = Task(web.seed, self._concurrency, Path(folder), server.url)
            command = CONTESTANTS[name](task)
            if command is None:
                return
            before = redis_cpu_s(client), redis_calls(client)
            env = {"REDIS_URL": task.redis_url, "SCRAPY_SETTINGS_MODULE": "benchmarks.settings"}
            with Metered(command, task.folder / "log", env) as crawler:
                ended = crawler.wait()
                time.sleep(LOGGED_S)
                log = web.new_requests()
                if ended.code or not log:
                    raise SystemExit(f"{name} failed:\n{crawler.tail()}")
            after = redis_cpu_s(client), redis_calls(client)
            rows, row_bytes = _count_rows(task.folder)
            waited_s = _waited_s(task.folder)
        cost = _cost(crawler, log, after[0] - before[0], after[1] - before[1])
        if cost["pages"] < NEARLY_ALL * web.pages:
            raise SystemExit(f"{name} fetched {cost['pages']} of {web.pages} pages of {web.name}")
        yield {
            "web": web.name,
            "crawler": name,
            **cost,
            "waited_for_redis_s": waited_s,
            "max_rss_mb": ended.max_rss_mb,
            "rows": rows,
            "bytes_per_row": row_bytes / max(1, rows),
            "page_kb": web.page_kb,
        }


def _cost(crawler: Metered, log: Sequence[Logged], redis_s: float, calls: int) -> Row:
    fetched = [request for request in log if request.status == 200]
    start_s, end_s = min(one.start_s for one in log), max(one.end_s for one in log)
    pages = len({request.path for request in fetched})
    cpu_s = crawler.cpu_s(start_s, end_s)
    return {
        "pages_per_s": pages / (end_s - start_s),
        "cpu_ms_per_page": 1000 * cpu_s / pages,
        "redis_cpu_ms_per_page": 1000 * redis_s / pages,
        "redis_calls_per_page": calls / pages,
        "core_busy": cpu_s / (end_s - start_s),
        "pages": pages,
        "repeated": len(fetched) - pages,
    }


def _waited_s(folder: Path) -> float | None:
    """How long ours had nothing in hand though hosts were due, by its own account."""
    kept = folder / stats.FILE
    return float(json.loads(kept.read_text())["frontier/waited_s"]) if kept.exists() else None


def _count_rows(folder: Path) -> tuple[int, int]:
    """Rows of pages on disk, headers left out, and their bytes."""
    files = [*folder.glob("items.csv"), *folder.glob("*/pages-*.csv")]
    written = [file.read_bytes() for file in files]
    return sum(text.count(b"\n") - 1 for text in written), sum(map(len, written))


def compared(rows: list[Row]) -> list[Row]:
    """With ratios to scrapy-redis on the same web."""
    yardsticks = {row["web"]: row for row in rows if row["crawler"] == YARDSTICK}
    for row in rows:
        yardstick = yardsticks.get(row["web"])
        row["times_as_fast"] = yardstick and row["pages_per_s"] / yardstick["pages_per_s"]
    return sorted(rows, key=lambda row: list(WEBS).index(row["web"]))


def main() -> None:
    parser = rounds.parser("peers", __doc__, rounds=2)
    add = parser.add_argument
    add("--pages", type=int, default=2000, help="of the made web [2000]")
    add("--concurrency", type=int, default=32, help="connections [32]")
    add("--webs", nargs="+", choices=WEBS, default=list(WEBS), help="[all]")
    add("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), help="[all]")
    options = parser.parse_args()
    with ExitStack() as stack:
        webs = [web for name in options.webs if (web := WEBS[name](stack, options))]
        for web in webs:
            pin(web.origin.pid, cores()[0])
        arena = Arena(webs, options.concurrency)
        cases = list(product((web.name for web in webs), options.only))
        rounds.run("peers", options, cases, arena.run, by=["web", "crawler"], finish=compared)


if __name__ == "__main__":
    main()
