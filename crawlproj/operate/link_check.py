"""A link check: one crawl of its own, from given URLs to the files that tell of broken links.

Its worker is a process of `scrapy crawl`, in a session of its own: Ctrl-C is passed on once, so
that it hands in what it has, and what is known by then is told.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from crawlproj.discover.seeds import read_seeds
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import crawls, purge
from crawlproj.operate.project_spiders import SITE
from crawlproj.output.folder import epoch_of
from crawlproj.plural import counted
from crawlproj.server import connection
from crawlproj.urls import UrlError, normalise

if TYPE_CHECKING:
    from crawlproj.operate.status import Status

SPIDER = SITE
NAME = "linkcheck-"
"""What the crawls of link checks begin with."""
LOG = "linkcheck.log"
SEEDS = ".seeds"
EARLIER = "earlier-*"

LOOK_EVERY_S = 0.5
CONNECT_S = 5.0
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_MOST_IN_A_NAME = 80


class CheckError(CrawlError):
    """The check could not be made."""


def name_of(urls: list[str]) -> str:
    """The crawl of a check: by the host that it begins with, so that checks of several sites go on
    side by side, and each is compared with the last one of its site. ConfigError for a bad URL."""
    try:
        hosts = [normalise(url).authority for url in urls]
    except UrlError as error:
        raise ConfigError(str(error)) from None
    return NAME + _NOT_IN_A_NAME.sub("-", hosts[0]).strip("-")[:_MOST_IN_A_NAME]


class LinkCheck:
    """One run of a check."""

    def __init__(
        self, name: str, urls: list[str], folder: Path, redis: connection.Resolved
    ) -> None:
        self.name = name
        self._urls = urls
        self._folder = folder
        self._redis = redis
        self._epoch_before = epoch_of(folder)
        self.was_interrupted = False
        self.seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, given: Mapping[str, str], options: list[str], *, shows_progress: bool) -> None:
        """Crawl to the end; raises CheckError if that cannot be done."""
        asyncio.run(self._make_room())
        began_s = time.monotonic()
        with self._signals_passed_on():
            code = self._crawl(given, options, shows_progress)
        self.seconds = time.monotonic() - began_s
        if code and not self.was_interrupted:
            raise CheckError(f"{self._last_words()} (the whole log: {self._folder / LOG})")
        for earlier in self._folder.glob(EARLIER):
            shutil.rmtree(earlier, ignore_errors=True)

    @property
    def has_begun(self) -> bool:
        """Whether the files in the folder are this check's, and not those of the one before."""
        return epoch_of(self._folder) != self._epoch_before

    async def _make_room(self) -> None:
        """Forget the last check of this site; one that is under way is left alone."""
        async with connection.client_of(self._redis) as client:
            found = await crawls.read(client, self.name)
            if found.workers:
                raise CheckError(
                    f"{self.name}: a check of this site is under way; wait for it, or end it with "
                    f"scrapy stop {self.name}"
                )
            frontier = Frontier(client, self.name, "")
            await frontier.attach()
            await purge.purge(frontier)

    def _crawl(self, given: Mapping[str, str], options: list[str], shows_progress: bool) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        seeds = self._folder / SEEDS
        seeds.write_text("".join(f"{url}\n" for url in self._urls), encoding="utf-8")
        arguments = {"crawl": self.name, "seeds": f"@{seeds}", **given}
        command = [sys.executable, "-m", "scrapy", "crawl", SPIDER, *options]
        for name, value in arguments.items():
            command += ["-a", f"{name}={value}"]
        with (self._folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        if self.was_interrupted:  # while there was nobody to pass it on to
            self._process.terminate()
        try:
            return self._watch(self._process, shows_progress)
        finally:
            seeds.unlink(missing_ok=True)

    def _watch(self, process: subprocess.Popen[bytes], shows_progress: bool) -> int:
        width = 0
        while True:
            try:
                code = process.wait(LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                if shows_progress and (now := crawls.look(self._redis, self.name)):
                    line = progress_line(now)
                    print(f"\r{line:<{width}}", end="", file=sys.stderr, flush=True)
                    width = len(line)
        if width:
            print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)
        return code

    @contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self._pass_on)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, number: int, _: Any) -> None:
        self.was_interrupted = True
        if self._process is not None:
            if self.has_begun:
                print("\nending the check; once more ends it at once", file=sys.stderr)
            self._process.send_signal(number)

    def _last_words(self) -> str:
        """What the worker said last."""
        text = (self._folder / LOG).read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "the crawl ended early"


def why_silent(url: str) -> str:
    """What keeps a host from answering, in words, asked once more; "" if it takes connections."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", _port(parts)), CONNECT_S).close()
    except socket.gaierror:
        return "nothing is known by that name"
    except TimeoutError:
        return f"no answer within {CONNECT_S:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def progress_line(now: Status) -> str:
    """How the check stands."""
    left = now.queued + now.delayed + now.leased
    checked = now.filtered.get("checked", 0)
    return (
        f"{counted(now.done, 'page')} read, {counted(checked, 'link')} asked, {now.dead:,} broken, "
        f"{left:,} to go"
    )


def given_urls(words: list[str]) -> list[str]:
    """The URLs of a command line: each as it is, or @file."""
    try:
        return [url for word in words for url in read_seeds(word)]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file cannot be read: {error}") from None
