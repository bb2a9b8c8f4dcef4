"""One worker of ours beside Scrapy, scrapy-redis, crawlee and a bare asyncio loop, on one web.

The web: one host, 11 KB and 57 links a page, 30 of them navigation, served from memory. All do the
same work: every page once, its title and links extracted, a row of CSV each. Ours runs the `fast`
profile with everything on: leases, ledger, seen filter, politeness, CSV feed.

The others live in environments of their own below ~/.cache/crawlproj-bench, made by the first run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import redis

from benchmarks.common import (
    PROJECT,
    Row,
    cores,
    machine,
    medians,
    pin,
    publish,
    redis_calls,
    redis_cpu_s,
    redis_server,
    say,
)
from benchmarks.meter import Metered
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.demo.log import Logged
from tests.servers.redis import RedisServer

ENVIRONMENTS = Path.home() / ".cache" / "crawlproj-bench"
CRAWLERS = PROJECT / "benchmarks" / "crawlers"
YARDSTICK = "scrapy-redis"


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


@cache
def environment(name: str, *packages: str) -> str:
    """The interpreter of a virtual environment with these packages."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        say(f"installing {', '.join(packages)} in {folder}")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "ready").touch()
    return str(python)


def ours(task: Task) -> list[str]:
    settings = {"CRAWL_OUTPUT": task.folder, "CONCURRENT_REQUESTS": task.concurrency}
    options = [word for pair in settings.items() for word in ("-s", "{}={}".format(*pair))]
    arguments = ["-a", f"seeds={task.seed}", "-a", f"per_host={task.concurrency}"]
    return [sys.executable, "-m", "scrapy", "crawl", "site", *arguments, *options]


def bare(task: Task) -> list[str]:
    return [sys.executable, "-m", "benchmarks.crawlers.bare", *task.words]


def _scrapy() -> str:
    packages = [f"{name}=={version(name)}" for name in ("scrapy", "scrapy-redis", "redis")]
    return environment("scrapy", *packages)


def scrapy(task: Task) -> list[str]:
    return [_scrapy(), str(CRAWLERS / "with_scrapy.py"), *task.words]


def scrapy_redis(task: Task) -> list[str]:
    return [*scrapy(task), task.redis_url]


def crawlee(task: Task) -> list[str]:
    python = environment("crawlee", "crawlee[parsel]")
    return [python, str(CRAWLERS / "with_crawlee.py"), *task.words]


CONTESTANTS: dict[str, Callable[[Task], list[str]]] = {
    "ours": ours,
    YARDSTICK: scrapy_redis,
    "scrapy": scrapy,
    "crawlee": crawlee,
    "bare": bare,
}


class Arena:
    """An origin and a Redis, in which contestants run one after the other."""

    def __init__(self, demo: DemoServer, server: RedisServer, client: redis.Redis) -> None:
        self._demo = demo
        self._server = server
        self._client = client
        self._answered = 0

    def run(self, name: str, concurrency: int) -> Row:
        """One crawl of one contestant; what it took."""
        self._client.flushall()
        self._client.config_resetstat()
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            task = Task(self._demo.seeds[0], concurrency, Path(folder), self._server.url)
            command = CONTESTANTS[name](task)
            before = redis_cpu_s(self._client), redis_calls(self._client)
            env = {"REDIS_URL": task.redis_url, "SCRAPY_SETTINGS_MODULE": "benchmarks.settings"}
            with Metered(command, task.folder / "log", env) as crawler:
                ended = crawler.wait()
                log = self._new_requests()
                if ended.code or not log:
                    raise SystemExit(f"{name} failed:\n{crawler.tail()}")
            after = redis_cpu_s(self._client), redis_calls(self._client)
            rows = _count_rows(task.folder)
        cost = _cost(crawler, log, after[0] - before[0], after[1] - before[1])
        if cost["pages"] != self._demo.spec.pages:
            raise SystemExit(f"{name} fetched {cost['pages']} of {self._demo.spec.pages} pages")
        return {"crawler": name, **cost, "max_rss_mb": ended.max_rss_mb, "rows": rows}

    def _new_requests(self) -> list[Logged]:
        everything = self._demo.requests()
        new, self._answered = everything[self._answered :], len(everything)
        return new


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


def _count_rows(folder: Path) -> int:
    """Rows of pages on disk, headers left out."""
    files = [*folder.glob("items.csv"), *folder.glob("*/pages-*.csv")]
    return sum(file.read_bytes().count(b"\n") - 1 for file in files)


def compared(rounds: Sequence[Row]) -> list[Row]:
    """Medians, with ratios to scrapy-redis in the same run."""
    rows = medians(rounds, "crawler")
    yardstick = next((row for row in rows if row["crawler"] == YARDSTICK), None)
    for row in rows:
        row["times_as_fast"] = yardstick and row["pages_per_s"] / yardstick["pages_per_s"]
    return rows


def main() -> None:
    options = _parser().parse_args()
    with ExitStack() as stack:
        server, client = stack.enter_context(redis_server())
        demo = stack.enter_context(DemoServer(WebSpec.bench(options.pages)))
        pin(demo.pid, cores()[0])
        pin(0, cores()[0])
        about = machine(client)
        arena, rounds = Arena(demo, server, client), []
        for number in range(options.rounds):
            for name in options.only:
                say(f"round {number + 1} of {options.rounds}: {name}")
                rounds.append(arena.run(name, options.concurrency))
        publish("peers", {**about, **vars(options)}, compared(rounds))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--pages", type=int, default=2000, help="of the web [2000]")
    parser.add_argument("--rounds", type=int, default=3, help="[3]")
    parser.add_argument("--concurrency", type=int, default=32, help="connections [32]")
    parser.add_argument(
        "--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), help="[all]"
    )
    return parser


if __name__ == "__main__":
    main()
