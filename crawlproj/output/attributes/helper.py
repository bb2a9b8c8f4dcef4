"""The process that reads a worker's pages: one beside each worker that wants attributes.

    python -m crawlproj.output.attributes.helper

Beside the event loop a thread would take turns with it; a process takes another core, and a page
that is made to take forever, or all memory, ends it and not the worker: the kernel kills it when
its time for a page is up, for parsers written in C hear no signal.

So there are two: one reads, the other has forked it and waits. If a page has used up its time the
one that waits says so and forks another, which is there at once. If the reader ended in any other
way, so does this one, and the worker starts anew.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from typing import IO, Any

from crawlproj.config.keep_rules import Rule
from crawlproj.discover.links import decode
from crawlproj.output.attributes.reading import read_attributes
from crawlproj.output.attributes.rows import (
    OUT_OF_TIME,
    READY,
    line_of,
    make_rule,
    receive,
    row_of,
    send,
)
from crawlproj.running import PageToRead

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
        while (code := _serve_in_a_child(source, target, rule)) == -signal.SIGPROF:
            send(target, OUT_OF_TIME)
    except (EOFError, BrokenPipeError):
        return
    sys.exit(abs(code))


def _serve_in_a_child(source: IO[bytes], target: IO[bytes], rule: Rule) -> int:
    """Have pages read; returns how that ended, as a negative number if by a signal."""
    child = os.fork()
    if not child:
        _serve(source, target, rule)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _serve(source: IO[bytes], target: IO[bytes], rule: Rule) -> None:
    with suppress(EOFError, BrokenPipeError):
        while True:
            limit_s, *page = receive(source)
            signal.setitimer(signal.ITIMER_PROF, limit_s)
            answer = _answer(PageToRead(*page), rule)
            signal.setitimer(signal.ITIMER_PROF, 0)
            send(target, answer)


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
    return line_of(row_of(page, found, problem), rule), problem


if __name__ == "__main__":
    main()
