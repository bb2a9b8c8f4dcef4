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
from crawlproj.frontier import worker_names
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.worker_names import plain
from crawlproj.running import Tally
from crawlproj.worker.heartbeat_report import HeartbeatReport

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def new_name() -> str:
    """A name that no other worker has, now or later."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"


def name_worker(settings: BaseSettings) -> None:
    """Settle this worker's name before its files are named after it."""
    if not environment.given(settings, "CRAWL_WORKER_ID"):
        settings.set("CRAWL_WORKER_ID", new_name(), priority="cmdline")


async def claim_name(frontier: Frontier, lease_timeout_s: float) -> None:
    """Be the only worker of this name, and have what a process of that name held taken back at
    once, if it has died on this machine. Raises ConfigError if one works under it, or has come
    first: they would write to the same files."""
    shard, timeout_ms = frontier.shards[0], int(lease_timeout_s * 1000)
    about = HeartbeatReport(Tally(), lease_timeout_s).fields(0)
    is_taken = True
    while is_taken:
        namesakes = await worker_names.claim(shard, frontier.worker, timeout_ms, about)
        for other, told, left_ms in namesakes:
            if left_ms > 0:
                _refuse_if_alive(other, read_about(told), left_ms)
            await frontier.leave(other)
        is_taken = any(one.left_ms > 0 for one in namesakes)


def _refuse_if_alive(other: str, about: dict[str, Any], left_ms: float) -> None:
    if not has_died_here(about.get("host"), about.get("pid")):
        raise ConfigError(
            f"Another worker is called {plain(other)} (process {about.get('pid')} on "
            f"{about.get('host')}): give each a CRAWL_WORKER_ID of its own, or leave it out; "
            f"if that one has died, wait {left_ms / 1000:.0f} s"
        )


def has_died_here(host: Any, pid: Any) -> bool:
    """Whether the process was one of this machine that is no more. One with our own number was:
    that is how the only process of a container comes back."""
    if host != socket.gethostname() or not isinstance(pid, int):
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
