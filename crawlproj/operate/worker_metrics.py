"""A worker's own metrics, at CRAWL_METRICS_PORT: what the crawl's status cannot tell.

Off, it is not there at all. On, it listens to signals of Scrapy's, and everything else is looked up
when somebody asks. Loopback unless CRAWL_METRICS_HOST says otherwise; then by token.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured

from crawlproj.config import Config
from crawlproj.engine.memory_limit import resident_bytes
from crawlproj.errors import ConfigError
from crawlproj.operate.dashboard.guard import Guard, is_loopback, names_of_machine
from crawlproj.operate.exposition import CONTENT_TYPE, Family, Histogram, text
from crawlproj.running import RunningCrawl, running_crawl, when_joined

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

TRIED_PORTS = 100
"""Workers of one machine take one after the other."""
LAG_EVERY_S = 0.25
MOST_HEAD_BYTES = 16_384
REQUEST_S = 5.0

LAGS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
LATENCIES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
EXCHANGES_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


def check(config: Config) -> None:
    """Refuse metrics that anybody could read, before the crawl starts."""
    is_open = not is_loopback(config.metrics_host) and not config.dashboard_token
    if config.metrics_port and is_open:
        raise ConfigError(
            f"CRAWL_METRICS_HOST={config.metrics_host}: others could read there; give a "
            "CRAWL_DASHBOARD_TOKEN, which Prometheus sends as a bearer"
        )


class WorkerMetrics:
    """Counts while the worker works, and answers Prometheus."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        is_public = not is_loopback(config.metrics_host)
        names = names_of_machine(config.metrics_host)
        self._guard = Guard(config.dashboard_token, is_public, names)
        self._folder = Path(config.output)
        self._began_s: dict[int, float] = {}
        self._latencies = Histogram(LATENCIES_S)
        self._lags = Histogram(LAGS_S)
        self._exchanges = Histogram(EXCHANGES_S)
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = Config.from_settings(crawler.settings)
        if not config.metrics_port:
            raise NotConfigured  # with a reason, Scrapy would warn of it at every start
        check(config)
        self = cls(crawler, config)
        connect = crawler.signals.connect
        connect(self._open, signals.spider_opened)
        connect(self._close, signals.spider_closed)
        connect(self._begin, signals.request_reached_downloader)
        connect(self._end, signals.request_left_downloader)
        return self

    # What is counted

    def _begin(self, request: Request) -> None:
        self._began_s[id(request)] = time.monotonic()

    def _end(self, request: Request) -> None:
        began_s = self._began_s.pop(id(request), None)
        if began_s is not None:
            self._latencies.observe(time.monotonic() - began_s)

    def _watch_exchange(self, crawl: RunningCrawl) -> None:
        for shard in crawl.frontier.shards:
            shard.on_answer = self._exchanges.observe

    async def _measure_lag(self) -> None:
        """How late the loop is in waking who has slept."""
        while True:
            due_s = time.monotonic() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._lags.observe(max(0.0, time.monotonic() - due_s))

    # Who asks

    async def _open(self) -> None:
        when_joined(self._crawler, self._watch_exchange)
        self._task = asyncio.create_task(self._measure_lag())
        self._server = await self._listen()

    async def _listen(self) -> asyncio.Server | None:
        first, host = self._config.metrics_port, self._config.metrics_host
        for port in range(first, min(first + TRIED_PORTS, 65_536)):
            with suppress(OSError):
                server = await asyncio.start_server(self._serve, host, port, limit=MOST_HEAD_BYTES)
                logger.info("Metrics of this worker: http://%s:%d/metrics", host, port)
                return server
        logger.warning("No metrics: no port from %d on is free at %s", first, host)
        return None

    async def _close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection: who scrapes asks every few seconds."""
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, body = self._answer(head.decode("latin-1"))
                kind = CONTENT_TYPE if status == HTTPStatus.OK else "text/plain"
                first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\n"
                rest = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write((first + rest).encode() + body)
                await writer.drain()
        writer.close()

    def _answer(self, head: str) -> tuple[int, bytes]:
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if refusal := self._guard.refusal(method, path, headers, {}):
            return refusal.status, refusal.text.encode()
        if path.partition("?")[0] != "/metrics":
            return HTTPStatus.NOT_FOUND, b"see /metrics"
        return HTTPStatus.OK, text(self.families()).encode()

    # What is told

    def families(self) -> list[Family]:
        """All of it, as it stands."""
        return [*self._plain(), *self._of_crawl(), *self._histograms()]

    def _plain(self) -> list[Family]:
        disk = shutil.disk_usage(_existing(self._folder))
        return [
            _gauge("requests_in_flight", "Requests in the downloader.", len(self._began_s)),
            _gauge("memory_bytes", "Resident memory of the process.", resident_bytes()),
            _gauge("disk_free_bytes", "Free where its files are.", disk.free),
            _gauge("disk_size_bytes", "Size of that disk.", disk.total),
        ]

    def _of_crawl(self) -> list[Family]:
        crawl = running_crawl(self._crawler)
        if crawl is None:
            return []
        tally, shards = crawl.worker.tally, crawl.frontier.shards
        sums = {
            "redis_calls_total": ("Calls of scripts.", "calls"),
            "redis_sent_bytes_total": ("Bytes of what they were given.", "bytes_sent"),
            "redis_received_bytes_total": ("Bytes of their answers.", "bytes_received"),
        }
        return [
            _counter("pages_total", "Pages that are settled.", tally.pages),
            _counter("bytes_total", "Bytes of what is settled.", tally.bytes),
            _counter("dead_total", "URLs that were given up.", tally.dead),
            *(
                _counter(name, about, sum(getattr(one, field) for one in shards))
                for name, (about, field) in sums.items()
            ),
        ]

    def _histograms(self) -> list[Family]:
        found = {
            "event_loop_lag_seconds": ("How late the event loop wakes.", self._lags),
            "request_seconds": (
                "From the beginning of a request to its response.",
                self._latencies,
            ),
            "redis_seconds": ("From a script's call to its answer.", self._exchanges),
        }
        families = []
        for name, (about, histogram) in found.items():
            family = Family(f"crawl_worker_{name}", "histogram", about)
            family.add_histogram(histogram)
            families.append(family)
        return families


def _gauge(name: str, about: str, value: float) -> Family:
    family = Family(f"crawl_worker_{name}", "gauge", about)
    family.add(value)
    return family


def _counter(name: str, about: str, value: float) -> Family:
    family = Family(f"crawl_worker_{name}", "counter", about)
    family.add(value)
    return family


def _existing(folder: Path) -> Path:
    """The folder, or what it will be made in."""
    path = folder.absolute()
    while not path.exists():
        path = path.parent
    return path
