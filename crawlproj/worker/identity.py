"""The name of this worker, and who else has had it (frontier/worker_names.py)."""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crawlproj.config import environment
from crawlproj.errors import ConfigError
from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.worker_names import plain

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def new_name() -> str:
    """A name that no other worker has, now or later."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


def name_worker(settings: BaseSettings) -> None:
    """Settle this worker's name before its files are named after it."""
    if not environment.given(settings, "CRAWL_WORKER_ID"):
        settings.set("CRAWL_WORKER_ID", new_name(), priority="cmdline")


async def evict_namesake(frontier: Frontier) -> None:
    """Have what a process of this name held taken back at once, if it has died on this machine.
    Raises ConfigError if one works under this name: they would write to the same files."""
    client, about_key = frontier.client, keys.about(frontier.crawl, 0)
    now_ms = await frontier.shards[0].now_ms()
    for worker, told in (await client.hgetall(about_key)).items():
        other = worker.decode(errors="replace")
        if plain(other) != plain(frontier.worker) or other == frontier.worker:
            continue
        silent_at_ms = await client.zscore(keys.workers(frontier.crawl, 0), worker) or 0
        about = read_about(told)
        if silent_at_ms > now_ms and not _has_died_here(about):
            raise ConfigError(
                f"Another worker is called {plain(other)} (process {about.get('pid')} on "
                f"{about.get('host')}): give each a CRAWL_WORKER_ID of its own, or leave it out; "
                f"if that one has died, wait {(silent_at_ms - now_ms) / 1000:.0f} s"
            )
        await frontier.leave(other)


def _has_died_here(about: dict[str, Any]) -> bool:
    """Whether the process was one of this machine that is no more. One with our own number was:
    that is how the only process of a container comes back."""
    pid = about.get("pid")
    if about.get("host") != socket.gethostname() or not isinstance(pid, int):
        return False
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def read_about(told: bytes) -> dict[str, Any]:
    """What a worker tells about itself; nothing if it cannot be read."""
    with suppress(ValueError, RecursionError):
        about = json.loads(told)
        if isinstance(about, dict):
            return about
    return {}
