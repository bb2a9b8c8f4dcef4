"""The process that reads a worker's pages: one beside each worker that wants attributes.

    python -m crawlproj.output.attributes.helper

Beside the event loop a thread would take turns with it; a process takes another core, and a page
that is made to take forever, or all memory, ends it and not the worker: the kernel kills it when
its time for a page is up, for parsers written in C hear no signal. The worker starts another.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import IO, Any

from crawlproj.config.keep_rules import Rule
from crawlproj.discover.links import decode
from crawlproj.output.attributes.reading import read_attributes
from crawlproj.output.attributes.rows import (
    READY,
    line_of,
    make_rule,
    receive,
    row_of,
    send,
)
from crawlproj.running import PageToRead

CPU_S = 2.0
"""Seconds of computing that a page may take; most take a few milliseconds."""
MEMORY_BYTES = 2 << 30


def main() -> None:
    """Answer with a line for each page, until the worker is gone."""
    # A worker that is told to stop has pages to finish; this one ends when it does.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    source, target = sys.stdin.buffer, _own_output()
    try:
        rule = make_rule(receive(source))
        send(target, READY)
        while True:
            page = PageToRead(*receive(source))
            signal.setitimer(signal.ITIMER_PROF, CPU_S)
            answer = _answer(page, rule)
            signal.setitimer(signal.ITIMER_PROF, 0)
            send(target, answer)
    except (EOFError, BrokenPipeError):
        return


def _own_output() -> IO[bytes]:
    """Where answers go, and nothing else: what a library prints goes where errors do."""
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return target


def _answer(page: PageToRead, rule: Rule) -> tuple[bytes, str]:
    """The line of its row, and what went wrong with it."""
    found: dict[str, Any] = {}
    problem = ""
    try:
        text, _ = decode(page.body, page.charset)
        if text is not None:
            found = read_attributes(text, page.url, page.language, page.canonical)
    except Exception as error:  # whatever a library says to a page, it is the page's fault
        problem = f"{type(error).__name__}: {error}"[:200]
    return line_of(row_of(page, found), rule), problem


if __name__ == "__main__":
    main()
