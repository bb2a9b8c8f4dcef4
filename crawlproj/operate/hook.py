"""Where notifications go: JSON by POST to a URL, or to the standard input of a command.

Threads do it, for a bounded time: a receiver that fails or hangs never holds up who tells it. They
are threads of their own, for those that asyncio lends are needed to have rows on disk, and a worker
that ends waits for them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from crawlproj.errors import ConfigError

logger = logging.getLogger(__name__)

ANSWER_S = 10.0
"""For one attempt."""
GRACE_S = 1.0
"""For one that has to be ended, beyond its time."""
ATTEMPTS = 3
BETWEEN_S = 1.0
LAST_S = 15.0
"""How long a worker that ends waits for what is still to be told."""
WEB = ("http://", "https://")
MOST_WAITING = 20
"""More are dropped: a receiver that hangs must not gather them."""


class Hook:
    """One receiver."""

    def __init__(
        self, target: str, answer_s: float = ANSWER_S, between_s: float = BETWEEN_S
    ) -> None:
        self._target = target
        self._answer_s = answer_s
        self._between_s = between_s
        self._sending: set[asyncio.Task[None]] = set()
        self._threads: list[threading.Thread] = []

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell it, some time soon."""
        if len(self._sending) >= MOST_WAITING:
            logger.warning("CRAWL_NOTIFY does not answer: not told %s", message["text"])
            return
        task = asyncio.create_task(self._send(dict(message)))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Wait for what is under way, not for long."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=LAST_S)
        for task in self._sending:
            task.cancel()

    async def _send(self, message: dict[str, Any]) -> None:
        for attempt in range(ATTEMPTS):
            try:
                await self._deliver(message)
                logger.info("Notified of: %s", message["text"])
                return
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                logger.warning("CRAWL_NOTIFY: %s was not delivered: %s", message["event"], error)
            await asyncio.sleep(self._between_s * 2**attempt)

    async def _deliver(self, message: dict[str, Any]) -> None:
        """One attempt, which is left to itself if it takes too long: a receiver that answers a byte
        at a time is never too late by its last one."""
        self._threads = [one for one in self._threads if one.is_alive()]
        if len(self._threads) >= MOST_WAITING:
            raise TimeoutError("those before it still wait for an answer")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            error = _failure(self._target, message, self._answer_s)
            with suppress(RuntimeError):  # nobody waits for it any more
                loop.call_soon_threadsafe(_settle, outcome, error)

        thread = threading.Thread(target=run, name="notify", daemon=True)
        self._threads.append(thread)
        thread.start()
        try:
            async with asyncio.timeout(self._answer_s + GRACE_S):
                await outcome
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no answer within {self._answer_s:g} s") from None


def _failure(target: str, message: Mapping[str, Any], most_s: float) -> Exception | None:
    """Why it could not be told; None if it was."""
    try:
        (_post if target.startswith(WEB) else _run)(target, message, most_s)
    except Exception as error:
        return error
    return None


def _settle(outcome: asyncio.Future[None], error: Exception | None) -> None:
    if outcome.done():
        return
    if error is None:
        outcome.set_result(None)
    else:
        outcome.set_exception(error)


def check(target: str) -> None:
    """Refuse what can never be told anything, before the crawl starts."""
    if not target or target.startswith(WEB):
        return
    try:
        program = shlex.split(target)[0]
    except (ValueError, IndexError):
        program = target
    if shutil.which(program) is None:
        raise ConfigError(
            f"CRAWL_NOTIFY={target}: give an http(s) URL or a command; "
            f"there is no program {program!r} here"
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is told goes to the URL that the user has given, and nowhere else."""

    def redirect_request(self, *args: Any, **options: Any) -> None:
        return None


def _post(url: str, message: Mapping[str, Any], most_s: float) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "crawlproj"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        opener.open(request, timeout=most_s).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _run(command: str, message: Mapping[str, Any], most_s: float) -> None:
    """Without a shell: what the web has written may be among what is told."""
    told = {f"NOTIFY_{name.upper()}": str(message[name]) for name in ("event", "crawl", "text")}
    done = subprocess.run(
        shlex.split(command),
        input=json.dumps(message).encode(),
        env={**os.environ, **told},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=most_s,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-200:]
        raise OSError(f"the command ended with {done.returncode}: {said}")
