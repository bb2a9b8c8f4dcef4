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

logger = logging.getLogger(__name__)

HELPER = "crawlproj.output.attributes.helper"
LONGEST_S = 120.0
"""After which a helper that says nothing is ended. It ends itself after two seconds of computing,
which on a machine that is short of time can take that long."""

START_AGAIN_S = (1.0, 2.0, 4.0)
"""Waits before a helper is started again on a machine that has no room for a process just now."""


class ReaderFailed(CrawlError):
    """Pages cannot be read on this machine. No page is settled then."""


class PageReader:
    """Makes lines of pages."""

    def __init__(self, rule: str | None) -> None:
        self._rule_text = rule
        self._rule = make_rule(rule)
        self._helper: subprocess.Popen[bytes] | None = None

    def read(self, page: PageToRead) -> bytes:
        """The line of a page's row, or nothing; a page that cannot be read has an empty one."""
        try:
            line, problem = self._ask_again(page)
        except (EOFError, OSError, ValueError, TypeError) as error:
            self._end()
            line = line_of(row_of(page, {}), self._rule)
            problem = str(error) or "it takes too much time or memory"
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

    def _ask_again(self, page: PageToRead) -> tuple[bytes, str]:
        """Once more if the helper was killed: a machine that is short of memory is not the page's
        fault. One that has used up its time is."""
        try:
            return self._ask(page)
        except (EOFError, BrokenPipeError):
            if self._end() == -signal.SIGPROF:
                raise
            return self._ask(page)

    def _ask(self, page: PageToRead) -> tuple[bytes, str]:
        helper = self._helper or self._start()
        assert helper.stdin is not None
        assert helper.stdout is not None
        send(helper.stdin, page)
        if not select.select([helper.stdout], [], [], LONGEST_S)[0]:
            raise TimeoutError
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

    def _end(self) -> int | None:
        """End it now; returns how it ended."""
        if (helper := self._helper) is None:
            return None
        self._helper = None
        helper.kill()
        code = helper.wait()
        for stream in (helper.stdin, helper.stdout):
            # What was still to be written to one that is gone.
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        return code


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
    )
