"""One worker of ours beside Scrapy, scrapy-redis, crawlee, spider-rs, wget2 and loops by hand.

Six webs, all served from memory: `made` (one host, 11 KB and 57 links a page, 30 of them
navigation), `real` (the HTML pages of a documentation package of Debian), `tls-http1` and
`tls-http2` (three such packages, many times, over TLS, gzip and brotli, half of them without a
charset in the header), `heavy` and `heavy-tls` (240 KB a page; plain, and over TLS with gzip).

All do the same work, on one core: every page once, its title and links extracted, a row of CSV
each, as many connections at a time; a crawler that is not done after `--seconds` is stopped and
judged by what it had fetched. What counts lies between the first and the last request that the
origin saw. Ours runs the `fast` profile with everything on: leases, ledger, seen filter,
politeness, CSV feed. wget2 writes no rows, and spider-rs takes as many connections as it likes.
`aiohttp` is a loop of a few dozen lines with lexbor; `bare` is the same with our own reading of
links. Both keep what they have seen in a set, know no pace and no robots.txt, and survive nothing.
`origin_busy` is the share of its core that the origin took: where that comes near 1, or where the
bare loop is no faster than a crawler, the origin was measured and not the crawler. `missed` are
pages that a crawler, at its own end, had not found.

The others live in environments of their own below ~/.cache/crawlproj-bench, made by the first run,
as far as npm, apt-get and nginx are there.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path

import redis

from benchmarks import environments, rounds, stats
from benchmarks.common import PROJECT, Row, cores, empty, pin, redis_calls, redis_cpu_s, say
from benchmarks.meter import Metered, cpu_s_of
from benchmarks.nginx import Seen
from benchmarks.plots import OURS
from benchmarks.webs import WEBS, Web
from crawlproj.operate.request_log import FLUSH_S
from tests.servers.redis import RedisServer

CRAWLERS = PROJECT / "benchmarks" / "crawlers"
YARDSTICK = "scrapy-redis"
SPIDER_RS = "@spider-rs/spider-rs@0.0.157"
"""The newest with a build for Linux."""
MOST = 0.5
"""Share of the pages without which a figure would say nothing; real ones have links on which some
stumble."""
LOGGED_S = 5 * FLUSH_S
"""After which an origin has written what it answered."""
SUCCESS = {0, 8}
"""Exit codes of a crawl that came to its end; wget2's 8: some page was missing."""
TRIES = 3
"""Of a peer that crashes: wget2 1.99 does now and then."""
ONE_CORE = set(sorted(cores()[1])[-1:])


@dataclass(frozen=True)
class Task:
    """What every contestant is given."""

    seed: str
    concurrency: int
    folder: Path
    redis_url: str
    authority: Path | None
    """The certificate to trust, for a web over TLS."""

    @property
    def env(self) -> dict[str, str]:
        env = {"REDIS_URL": self.redis_url, "SCRAPY_SETTINGS_MODULE": "benchmarks.settings"}
        for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS") if self.authority else ():
            env[name] = str(self.authority)
        return env

    @property
    def words(self) -> list[str]:
        return [self.seed, str(self.concurrency), str(self.folder / "items.csv")]


Contestant = Callable[[Task], list[str] | None]
"""The command of a crawler; none where it cannot be had."""


def ours(task: Task) -> list[str]:
    settings = {"CRAWL_OUTPUT": task.folder, "CONCURRENT_REQUESTS": task.concurrency}
    if task.authority:
        settings["CRAWL_CA_FILE"] = task.authority
    options = [word for pair in settings.items() for word in ("-s", "{}={}".format(*pair))]
    command = [sys.executable, "-m", "scrapy", "crawl", "site", "-a", f"seeds={task.seed}"]
    return [*command, *options]


def by_hand(task: Task) -> list[str]:
    python = environments.python("aiohttp", "aiohttp[speedups]", "selectolax")
    return [python, str(CRAWLERS / "with_aiohttp.py"), *task.words]


def bare(task: Task) -> list[str]:
    """The same with our own reading of links, which is most of such a page."""
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


def spider_rs(task: Task) -> list[str] | None:
    folder = environments.node("spider-rs", SPIDER_RS)
    if folder is None:
        return None
    script = shutil.copy(CRAWLERS / "with_spider_rs.cjs", folder)
    return ["node", str(script), *task.words]


def wget2(task: Task) -> list[str] | None:
    """It reads links only, and keeps no rows."""
    command = environments.wget2()
    if command is None:
        return None
    trusted = [f"--ca-certificate={task.authority}"] if task.authority else []
    options = ["--recursive", "--level=inf", "--robots=off", "--delete-after", "--quiet"]
    where = [f"--max-threads={task.concurrency}", f"--directory-prefix={task.folder}/files"]
    return [*command, *options, *where, *trusted, task.seed]


CONTESTANTS: dict[str, Contestant] = {
    OURS: ours,
    YARDSTICK: scrapy_redis,
    "scrapy": scrapy,
    "crawlee": crawlee,
    "crawlee-node": crawlee_node,
    "spider-rs": spider_rs,
    "wget2": wget2,
    "aiohttp": by_hand,
    "bare": bare,
}


class Failed(Exception):
    """A crawler that came to no good end, or fetched nothing."""


class Arena:
    """The webs and a Redis, in which contestants run one after the other."""

    def __init__(self, webs: Sequence[Web], concurrency: int, limit_s: float) -> None:
        self._webs = {web.name: web for web in webs}
        self._concurrency = concurrency
        self._limit_s = limit_s

    def run(self, server: RedisServer, client: redis.Redis, case: tuple[str, str]) -> Iterator[Row]:
        """One crawl of one contestant; what it took. A peer that keeps failing has no row."""
        web, name = self._webs[case[0]], case[1]
        for _ in range(TRIES):
            try:
                cost = self._crawl(server.url, client, web, CONTESTANTS[name])
            except Failed as failed:
                say(f"{name} failed on {web.name}: {failed}")
                continue
            if cost is not None:
                yield {"web": web.name, "crawler": name, **cost}
            return
        if name == OURS:
            raise SystemExit(1)

    def _crawl(
        self, redis_url: str, client: redis.Redis, web: Web, contestant: Contestant
    ) -> Row | None:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            seed, trusted = web.origin.seed, web.authority
            task = Task(seed, self._concurrency, Path(folder), redis_url, trusted)
            command = contestant(task)
            return self._measure(client, web, task, command) if command else None

    def _measure(self, client: redis.Redis, web: Web, task: Task, command: list[str]) -> Row:
        empty(client)
        client.config_resetstat()
        before = redis_cpu_s(client), redis_calls(client), cpu_s_of(web.origin.pid)
        with Metered(command, task.folder / "log", task.env, ONE_CORE) as crawler:
            ended = crawler.wait(self._limit_s)
            time.sleep(LOGGED_S)
            log = web.new_requests()
            if not log or (crawler.stopped_s is None and ended.code not in SUCCESS):
                raise Failed(f"exit code {ended.code}\n{crawler.tail()}")
        after = redis_cpu_s(client), redis_calls(client), cpu_s_of(web.origin.pid)
        cost = _cost(crawler, log, *(end - start for start, end in zip(before, after, strict=True)))
        if crawler.stopped_s is None and cost["pages"] < MOST * web.pages:
            raise Failed(f"it found {cost['pages']:,} of {web.pages:,} pages")
        rows, row_bytes = _count_rows(task.folder)
        return {
            **cost,
            "waited_for_redis_s": _waited_s(task.folder),
            "max_rss_mb": ended.max_rss_mb,
            "rows": rows,
            "bytes_per_row": rows and row_bytes / rows,
            "page_kb": web.page_kb,
            "missed": web.pages - cost["pages"] if crawler.stopped_s is None else None,
        }


def _cost(
    crawler: Metered, log: Sequence[Seen], redis_s: float, calls: float, origin_s: float
) -> Row:
    """What was answered after a crawler was told to end does not count."""
    log = [one for one in log if crawler.stopped_s is None or one.end_s <= crawler.stopped_s]
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
        "origin_busy": origin_s / (end_s - start_s),
        "pages": pages,
        "repeated": len(fetched) - pages,
        "protocols": _shares(request.protocol for request in fetched),
        "encodings": _shares(request.encoding or "plain" for request in fetched),
    }


def _shares(values: Iterable[str]) -> str:
    """`br 49 %, gzip 51 %`; the name alone where there is but one."""
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} {counts[name] / counts.total():.0%}" for name in sorted(counts))


def _waited_s(folder: Path) -> float | None:
    """How long ours had nothing in hand though hosts were due, by its own account."""
    kept = folder / stats.FILE
    return float(json.loads(kept.read_text())["frontier/waited_s"]) if kept.exists() else None


def _count_rows(folder: Path) -> tuple[int, int]:
    """Rows of pages on disk, headers left out, and their bytes."""
    files = [*folder.glob("items.csv"), *folder.glob("*/pages-*.csv")]
    written = [text for file in files if (text := file.read_bytes())]
    return sum(text.count(b"\n") - 1 for text in written), sum(map(len, written))


def compared(rows: list[Row]) -> list[Row]:
    """With ratios to scrapy-redis on the same web."""
    yardsticks = {row["web"]: row for row in rows if row["crawler"] == YARDSTICK}
    for row in rows:
        yardstick = yardsticks.get(row["web"])
        row["times_as_fast"] = yardstick and row["pages_per_s"] / yardstick["pages_per_s"]
    webs = list(dict.fromkeys(row["web"] for row in rows))
    return sorted(rows, key=lambda row: webs.index(row["web"]))


def main() -> None:
    parser = rounds.parser("peers", __doc__, rounds=2)
    add = parser.add_argument
    add("--pages", type=int, default=20_000, help="of each web but `real`, at least [20000]")
    add("--seconds", type=float, default=25, help="then a crawler is stopped, done or not [25]")
    add("--concurrency", type=int, default=32, help="connections [32]")
    add("--webs", nargs="+", choices=WEBS, default=list(WEBS), help="[all]")
    add("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), help="[all]")
    options = parser.parse_args()
    with ExitStack() as stack:
        webs = [web for name in options.webs for web in WEBS[name](stack, options)]
        for web in webs:
            pin(web.origin.pid, cores()[0])
        arena = Arena(webs, options.concurrency, options.seconds)
        cases = list(product((web.name for web in webs), options.only))
        rounds.run("peers", options, cases, arena.run, by=["web", "crawler"], finish=compared)


if __name__ == "__main__":
    main()
