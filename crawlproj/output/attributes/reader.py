"""The worker's end of the process that reads pages: starts it, asks it, and starts another when a
page was its end. For one thread."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import crawlproj
from crawlproj.errors import CrawlError
from crawlproj.output.attributes.rows import (
    line_of,
    make_rule,
    receive,
    row_of,
    send,
)
from crawlproj.running import PageToRead
from crawlproj.urls import registrable_domain

logger = logging.getLogger(__name__)

HELPER = "crawlproj.output.attributes.helper"
LONGEST_S = 120.0
"""After which a helper that says nothing is ended. A page has two seconds of computing at most,
which on a machine that is short of time can take that long."""

PAGE_S, LEAST_S = 2.0, 0.125
"""Seconds of computing that a page may take, and that it may take if others of its site have taken
too long. Most pages take a few milliseconds."""
MOST_SITES = 1000
"""Sites with less time that are remembered."""

START_AGAIN_S = (1.0, 2.0, 4.0)
"""Waits before a helper is started again on a machine that has no room for a process just now."""


class ReaderFailed(CrawlError):
    """Pages cannot be read on this machine. No page is settled then."""


class TimeLimits:
    """How long pages may be computed at, by their site: one whose pages take too long has ever less
    of the time in which those of others wait to be read."""

    def __init__(self) -> None:
        self._lowered: dict[str, float] = {}

    def of(self, url: str) -> float:
        """Seconds that a page has."""
        return self._lowered.get(_site_of(url), PAGE_S) if self._lowered else PAGE_S

    def lower(self, url: str) -> None:
        """A page has used up its time."""
        limit_s = max(self.of(url) / 2, LEAST_S)
        if len(self._lowered) >= MOST_SITES:
            self._lowered.clear()
        self._lowered[_site_of(url)] = limit_s


def _site_of(url: str) -> str:
    return registrable_domain(urlsplit(url).hostname or "")


class PageReader:
    """Makes lines of pages."""

    def __init__(self, rule: str | None) -> None:
        self._rule_text = rule
        self._rule = make_rule(rule)
        self._helper: subprocess.Popen[bytes] | None = None
        self._limits = TimeLimits()

    def read(self, page: PageToRead) -> bytes:
        """The line of a page's row, or nothing; that of a page that cannot be read says so."""
        limit_s = self._limits.of(page.url)
        try:
            line, problem = self._ask_again(page, limit_s)
        except (EOFError, OSError, ValueError, TypeError) as error:
            self._end()
            line, problem = None, str(error) or "takes too much memory"
        if line is None:
            if not problem:
                self._limits.lower(page.url)
                problem = f"takes more than {limit_s:g} s of computing"
            line = line_of(row_of(page, {}, problem), self._rule)
        if problem:
            logger.warning("No attributes of %s: %s", page.url, problem)
        return line

    def close(self) -> None:
        """Have the process end."""
        if (helper := self._helper) is None:
            return
        assert helper.stdin is not None
        with suppress(OSError, subprocess.TimeoutExpired):
            helper.stdin.close()
            helper.wait(5)
        self._end()

    def _ask_again(self, page: PageToRead, limit_s: float) -> tuple[bytes | None, str]:
        """Once more if the helper was killed: a machine that is short of memory is not the page's
        fault."""
        try:
            return self._ask(page, limit_s)
        except (EOFError, BrokenPipeError):
            self._end()
            return self._ask(page, limit_s)

    def _ask(self, page: PageToRead, limit_s: float) -> tuple[bytes | None, str]:
        helper = self._helper or self._start()
        assert helper.stdin is not None
        assert helper.stdout is not None
        send(helper.stdin, (limit_s, *page))
        if not select.select([helper.stdout], [], [], LONGEST_S)[0]:
            raise TimeoutError(f"takes more than {LONGEST_S:g} s")
        line, problem = receive(helper.stdout)
        return line, problem

    def _start(self) -> subprocess.Popen[bytes]:
        helper = self._helper = _begin()
        assert helper.stdin is not None
        assert helper.stdout is not None
        try:
            send(helper.stdin, self._rule_text)
            receive(helper.stdout)
        except (EOFError, OSError):
            code = helper.wait()
            self._end()
            raise ReaderFailed(
                f"the process that reads attributes ended with {code} before it began; "
                f"what it says is above, and by: {sys.executable} -m {HELPER} </dev/null"
            ) from None
        return helper

    def _end(self) -> None:
        """End it now, with the process that it has forked."""
        if (helper := self._helper) is None:
            return
        self._helper = None
        with suppress(ProcessLookupError):
            os.killpg(helper.pid, signal.SIGKILL)
        helper.wait()
        for stream in (helper.stdin, helper.stdout):
            # What was still to be written to one that is gone.
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]


def _begin() -> subprocess.Popen[bytes]:
    """A new helper, as soon as the machine has room for one."""
    for wait_s in START_AGAIN_S:
        try:
            return _popen()
        except OSError as error:
            logger.warning("The process that reads attributes cannot start (%s); waiting", error)
            time.sleep(wait_s)
    try:
        return _popen()
    except OSError as error:
        raise ReaderFailed(
            f"the process that reads attributes cannot start ({error}): have fewer workers on this "
            "machine, or raise its limits of memory, processes and open files (ulimit -a)"
        ) from None


def _popen() -> subprocess.Popen[bytes]:
    root = str(Path(crawlproj.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", HELPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        process_group=0,
    )
