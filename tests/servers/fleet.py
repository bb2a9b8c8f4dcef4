"""Real workers for tests: `scrapy crawl` processes that share a Redis and write to one folder."""

from __future__ import annotations

import asyncio
import csv
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import status
from crawlproj.server import connection
from tests.servers import scrapy_process
from tests.servers.redis import PATIENCE, wait_for

T = TypeVar("T")

PROJECT = Path(__file__).parents[2]
DEMO_WEB = {"CRAWL_ALLOW_ADDRESSES": "loopback"}
"""A demo web has an address a host: one seed opens one of them."""
QUICK = {"CRAWL_STATS_INTERVAL": "1", "FRONTIER_RETRY_DELAY": "0.1", "SEEN_CAPACITY": "100000"}


class Worker:
    """One `scrapy crawl` process and its log."""

    def __init__(self, words: list[str], env: dict[str, str], cwd: Path, log: Path) -> None:
        self.log_path = log
        with log.open("wb") as file, Path(os.devnull).open("rb") as nothing:
            out = file.fileno()
            self.process = scrapy_process.start(
                words, env, cwd, stdin=nothing.fileno(), stdout=out, stderr=out
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def reason(self) -> str:
        """Why its spider closed."""
        found = re.search(r"Spider closed \((.*?)\)", self.log)
        return found[1] if found else ""

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait(self, timeout_s: float = 90) -> str:
        """Wait for its end; returns the reason."""
        try:
            self.process.wait(timeout_s * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"still running after {timeout_s * PATIENCE} s:\n{self.log[-5000:]}"
            ) from None
        return self.reason

    def wait_for_log(self, text: str, timeout_s: float = 30) -> None:
        wait_for(lambda: text in self.log or not self.is_running, text, timeout_s)
        assert text in self.log, self.log[-5000:]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.is_running:
            self.process.kill()
            self.process.wait()


class Fleet:
    """Workers of one crawl, and what can be seen of it from outside.

    `settings` are for all of them. As a context manager it ends them, whatever happens.
    """

    def __init__(
        self,
        folder: Path,
        redis_url: str,
        project: Path = PROJECT,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = {**QUICK, **(settings or {})}
        self.folder = folder
        self.redis_url = redis_url
        self.project = project
        self.output = folder / "output"
        self.run = secrets.token_hex(4)
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()

    def start(
        self,
        settings: dict[str, Any] | None = None,
        spider: str = "site",
        env: dict[str, str] | None = None,
        **args: Any,
    ) -> Worker:
        """Start a worker with these settings, environment and spider arguments."""
        own = {"CRAWL_OUTPUT": str(self.output), "CRAWL_RUN_ID": self.run}
        given = {**self.settings, **own, **(settings or {})}
        words = ["crawl", spider]
        for name, value in args.items():
            words += ["-a", f"{name}={value}"]
        for name, value in given.items():
            words += ["-s", f"{name}={value}"]
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = Worker(words, {**self.env, **(env or {})}, self.project, log)
        self.workers.append(worker)
        return worker

    @property
    def env(self) -> dict[str, str]:
        env = {**os.environ, "PYTHONPATH": str(PROJECT), "REDIS_URL": self.redis_url}
        return env if self.redis_url else {k: v for k, v in env.items() if k != "REDIS_URL"}

    def wait(self, timeout_s: float = 90) -> list[str]:
        """Wait for all workers; returns the reasons."""
        return [worker.wait(timeout_s) for worker in self.workers]

    def command(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run another scrapy command of the project."""
        return scrapy_process.run(list(words), self.env, self.project, stdin, 60 * PATIENCE)

    def status(self, crawl: str = "site") -> dict[str, Any]:
        """What `scrapy status --json` prints, read directly."""

        async def read(frontier: Frontier) -> dict[str, Any]:
            return status.as_json(await status.read(frontier, in_detail=True))

        return self.at_frontier(read, crawl)

    def at_frontier(self, work: Callable[[Frontier], Awaitable[T]], crawl: str = "site") -> T:
        """Do something with the crawl beside its workers."""

        async def connected() -> T:
            client = await connection.connect(self.redis_url)
            try:
                return await work(Frontier(client, crawl, "test"))
            finally:
                await client.aclose()

        return asyncio.run(connected())

    def assert_settled(self) -> None:
        """The ledger balances, and nothing is left to do."""
        now = self.status()
        assert now["balance"] == 0
        assert [now[name] for name in ("queued", "delayed", "leased")] == [0, 0, 0]

    def rows(self, kind: str, crawl: str = "site") -> list[dict[str, str]]:
        """The rows that all workers wrote."""
        rows = []
        for part in sorted((self.output / crawl).glob(f"{kind}-*.csv")):
            with part.open(newline="", encoding="utf-8") as file:
                rows += list(csv.DictReader(file))
        return rows

    def urls(self, kind: str = "pages") -> list[str]:
        return [row["url"] for row in self.rows(kind)]
