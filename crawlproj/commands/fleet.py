"""`scrapy fleet site -n 4`: starts several workers on this machine, and ends when all of them have.

A worker that ends early, at its memory limit or by a signal, gets a successor (operate/fleet.py).
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import deque
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from scrapy.spiderloader import get_spider_loader
from scrapy.utils.conf import arglist_to_dict

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.operate.command import ProjectCommand
from crawlproj.operate.fleet import WorkerSlot
from crawlproj.operate.fleet_view import FleetView, fleet_view
from crawlproj.operate.logs import forget_oldest
from crawlproj.operate.starting import check_start
from crawlproj.operate.summing_up import write_again
from crawlproj.output.gather import gatherings

LOOK_EVERY_S = 0.2


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
        start = check_start(self.settings, spiders, args, _named(opts.spargs))
        config = Config.from_settings(self.settings)
        folder = config.folder_of(start.crawl)
        folder.mkdir(parents=True, exist_ok=True)
        run = config.run_id or secrets.token_hex(8)
        shared = ["-s", f"CRAWL_RUN_ID={run}"]
        files, told = gatherings(self.settings, opts.output, opts.overwrite_output, run)
        command = [*_command(args[0], opts), *shared, *told]
        fleet = Fleet(
            command,
            folder,
            config.worker_id,
            fleet_view(start.crawl, start.redis),
            config.log_files,
        )
        exit_code = fleet.run(opts.workers)
        for file in files:
            print(file.gather(self.settings, may_repeat=fleet.has_lost_workers))
        return exit_code


class Fleet:
    """Worker processes, their logs, and their common end."""

    def __init__(
        self, command: list[str], folder: Path, name: str, view: FleetView, kept_logs: int
    ) -> None:
        self._command = command
        self._kept_logs = kept_logs
        self._view = view
        self._folder = folder
        self._name = name
        self._slots: list[WorkerSlot] = []
        self._signals: deque[int] = deque()
        self._is_stopping = False

    def run(self, count: int) -> int:
        """Start the workers, wait for all of them; 0 if each ended well."""
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda number, _: self._signals.append(number))
        for number in range(1, count + 1):
            log = self._folder / f"worker-{number}.log"
            _keep_earlier_log(log, self._kept_logs)
            slot = WorkerSlot(f"worker {number}", partial(self._start, log, number))
            self._slots.append(slot)
            self._view.say(f"{slot.name}: process {slot.process.pid}, log in {log}")
        self._wait()
        self._view.close()
        failures = list(filter(None, (slot.failure for slot in self._slots)))
        for failure in failures:
            print(failure, file=sys.stderr)
        summary = self._folder / "summary.txt"
        if summary.exists():
            write_again(self._folder, self._view.redis, self._view.crawl)
            print(summary.read_text())
        return 1 if failures else 0

    @property
    def has_lost_workers(self) -> bool:
        """Whether one has ended without handing in what it held."""
        return any(slot.has_lost for slot in self._slots)

    def _wait(self) -> None:
        """Show how the crawl stands until all workers have ended."""
        while self._goes_on():
            time.sleep(LOOK_EVERY_S)
            while self._signals:
                self._pass_on(self._signals.popleft())
            self._view.show()

    def _goes_on(self) -> bool:
        """Replace workers that ended early; False once all have ended."""
        for slot in self._slots:
            if not self._is_stopping and (replaced := slot.replace()):
                self._view.say(replaced)
        return any(slot.is_running for slot in self._slots)

    def _start(self, log: Path, number: int) -> subprocess.Popen[bytes]:
        own = ["-s", f"CRAWL_WORKER_ID={self._name}-{number}"] if self._name else []
        own += ["-s", f"LOG_FILE={log}"]
        # In a session of its own, so that Ctrl-C reaches it once: from here.
        with log.open("ab") as file:
            return subprocess.Popen(
                [*self._command, *own],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _pass_on(self, number: int) -> None:
        """From the loop, not from the signal's handler: by then all workers have been started."""
        self._is_stopping = True
        self._view.warn("stopping the workers; once more ends them at once")
        for slot in self._slots:
            slot.tell(number)


def _keep_earlier_log(log: Path, kept: int) -> None:
    """Keep the log of an earlier fleet, named by when it was last written to, and of many the
    latest."""
    forget_oldest(log.parent, f"{log.stem}-until-*.log", kept - 1)
    if log.exists():
        written = datetime.fromtimestamp(log.stat().st_mtime, UTC)
        log.rename(log.with_name(f"{log.stem}-until-{written:%Y%m%dT%H%M%S.%fZ}.log"))


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
