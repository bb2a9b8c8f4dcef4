"""What commands print and how they end, for the tests that type them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.servers.fleet import Fleet

Ended = subprocess.CompletedProcess[str]


def in_output(fleet: Fleet, *words: str) -> Ended:
    """A command that reads or writes the crawl's files."""
    return fleet.command(*words, "-s", f"CRAWL_OUTPUT={fleet.output}")


def json_of(ended: Ended) -> Any:
    """What a command prints with --json."""
    return json.loads(ended.stdout)


def assert_one_line(ended: Ended, code: int, *parts: str) -> None:
    """A mistake is answered by one line, which has these parts."""
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (code, "", 1), ended
    for part in parts:
        assert part in ended.stderr
