"""`scrapy fleet site -n 4`: several workers on this machine, started and ended together.

A worker that ends early, at its memory limit or by a signal, gets a successor (operate/fleet.py).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.conf import arglist_to_dict

from crawlproj.config import Config
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import status
from crawlproj.operate.command import ProjectCommand, check_start
from crawlproj.operate.fleet import Place
from crawlproj.operate.status import Status
from crawlproj.operate.status_view import in_one_line, still_finished
from crawlproj.output.gather import gatherings
from crawlproj.server import connection

LOOK_EVERY_S = 0.2
TELL_EVERY_S = 1.0
LINE = 78


class Command(ProjectCommand):
    arguments = "<spider> [-n WORKERS] [-a NAME=VALUE]… [-o FILE]"
    most_arguments = 1
    summary = "Run several workers of a crawl on this machine"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        count = os.cpu_count() or 1
        parser.add_argument(
            "-n", "--workers", type=int, default=count, help=f"how many (one a core: {count})"
        )
        parser.add_argument(
            "-a",
            dest="spargs",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="argument of the spider, as for scrapy crawl",
        )
        for short, name, what in (
            ("-o", "output", "add the items of all workers to this file, as for scrapy crawl"),
            ("-O", "overwrite-output", "the same, replacing what is there"),
        ):
            parser.add_argument(
                short, f"--{name}", action="append", default=[], metavar="FILE", help=what
            )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        if opts.workers < 1:
            raise ConfigError(f"-n {opts.workers}: give a whole number of workers, 1 or more")
        spiders = get_spider_loader(self.settings).list()
        crawl = check_start(self.settings, spiders, args, _named(opts.spargs))
        config = Config.from_settings(self.settings)
        folder = Path(config.output) / crawl
        folder.mkdir(parents=True, exist_ok=True)
        resolved = connection.resolve_for_command(self.settings)
        run = config.run_id or secrets.token_hex(8)
        shared = ["-s", f"CRAWL_RUN_ID={run}"]
        files, told = gatherings(self.settings, opts.output, opts.overwrite_output, run)
        command = [*_command(args[0], opts), *shared, *told]
        fleet = Fleet(command, folder, config.worker_id, Progress(crawl, resolved))
        exit_code = fleet.sail(opts.workers)
        for file in files:
            print(file.gather(self.settings, may_repeat=fleet.has_lost_workers))
        return exit_code


class Fleet:
    """Worker processes, their logs, and their common end."""

    def __init__(
        self, command: list[str], folder: Path, name: str, progress: Callable[[], str]
    ) -> None:
        self._command = command
        self._progress = progress
        self._folder = folder
        self._name = name
        self._places: list[Place] = []
        self._is_stopping = False

    def sail(self, count: int) -> int:
        """Start the workers, wait for all of them; 0 if each ended well."""
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._pass_on)
        for number in range(1, count + 1):
            log = self._folder / f"worker-{number}.log"
            _set_aside(log)
            place = Place(f"worker {number}", partial(self._start, log, number))
            self._places.append(place)
            print(f"{place.name}: process {place.process.pid}, log in {log}", flush=True)
        self._wait()
        complaints = list(filter(None, (place.complaint for place in self._places)))
        for complaint in complaints:
            print(complaint, file=sys.stderr)
        summary = self._folder / "summary.txt"
        if summary.exists():
            print(summary.read_text())
        return 1 if complaints else 0

    @property
    def has_lost_workers(self) -> bool:
        """Whether one has ended without handing in what it held."""
        return any(place.has_lost for place in self._places)

    def _wait(self) -> None:
        """Show how the crawl stands until all workers have ended: in one line on a terminal."""
        is_terminal = sys.stdout.isatty()
        every_s = TELL_EVERY_S if is_terminal else 5 * TELL_EVERY_S
        told_at, told = time.monotonic(), ""
        while self._goes_on():
            time.sleep(LOOK_EVERY_S)
            if time.monotonic() - told_at < every_s:
                continue
            told_at, before, told = time.monotonic(), told, self._progress()
            if told and told != before:
                width = max(LINE, len(before))  # covers what stood there
                print(
                    f"\r{told:<{width}}" if is_terminal else told, end="" if is_terminal else "\n"
                )
                sys.stdout.flush()
        if is_terminal:
            print()

    def _goes_on(self) -> bool:
        """Replace workers that ended early; False once all have ended."""
        for place in self._places:
            if not self._is_stopping and (replaced := place.replace()):
                print(replaced, flush=True)
        return any(place.is_manned for place in self._places)

    def _start(self, log: Path, number: int) -> subprocess.Popen[bytes]:
        own = ["-s", f"CRAWL_WORKER_ID={self._name}-{number}"] if self._name else []
        # In a session of its own, so that Ctrl-C reaches it once: from here.
        with log.open("ab") as file:
            return subprocess.Popen(
                [*self._command, *own],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _pass_on(self, number: int, _: Any) -> None:
        print("stopping the workers; once more ends them at once", file=sys.stderr)
        self._is_stopping = True
        for place in self._places:
            if place.is_manned:
                place.process.send_signal(number)


def _set_aside(log: Path) -> None:
    """Keep the log of an earlier fleet, named by when it was last written to."""
    if log.exists():
        written = datetime.fromtimestamp(log.stat().st_mtime, UTC)
        log.rename(log.with_name(f"{log.stem}-until-{written:%Y%m%dT%H%M%S.%fZ}.log"))


class Progress:
    """How the crawl stands, in a line; nothing while that cannot be told."""

    def __init__(self, crawl: str, resolved: connection.Resolved) -> None:
        self._crawl = crawl
        self._resolved = resolved
        before = self._look()
        self._was_over = before.epoch if before and before.state == "finished" else None

    def __call__(self) -> str:
        now = self._look()
        if now is None:
            return ""
        finds_nothing = now.state == "finished" and now.epoch == self._was_over
        return still_finished(now) if finds_nothing else in_one_line(now)

    def _look(self) -> Status | None:
        try:
            return asyncio.run(self._read())
        except (CrawlError, RedisError):
            return None

    async def _read(self) -> Status:
        client = await connection.connect(self._resolved.url, self._resolved.params)
        try:
            return await status.read(Frontier(client, self._crawl, ""))
        finally:
            await client.aclose()


def _named(given: list[str]) -> dict[str, str]:
    try:
        return dict(arglist_to_dict(given))
    except ValueError:
        raise ConfigError("-a takes NAME=VALUE, such as -a depth=2") from None


def _command(spider: str, opts: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "scrapy", "crawl", spider]
    for given in opts.spargs:
        command += ["-a", given]
    for given in opts.set:
        command += ["-s", given]
    return command
