"""One Chromium of a worker: started when a page first needs it, replaced when it has grown.

It has no way to the network: whatever its pages ask for is answered by us or not at all (errands.py
does), and what goes past that (a WebSocket, a prefetch, a look-up of its own) finds a proxy that is
not there and names that do not resolve.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawlproj.config.packages import RENDER, need_packages
from crawlproj.errors import ConfigError

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import BrowserContext, Playwright

logger = logging.getLogger(__name__)

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--proxy-server=127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--mute-audio",
)
CLOSING_S = 5.0
"""How long a browser, or a page of it, may take to close before it is left to itself."""


def find_browser(named: str) -> str:
    """The program that runs scripts; raises ConfigError, which says what to install."""
    need_packages("CRAWL_RENDER", RENDER, "render")
    for name in (named,) if named else NAMES:
        if found := shutil.which(name):
            return found
    raise ConfigError(
        f"CRAWL_RENDER: there is no browser ({named or ' or '.join(NAMES[:2])}): install Chromium "
        "(Debian: apt-get install chromium), or give the path of one as CRAWL_BROWSER"
    )


@dataclass
class _Running:
    chromium: Chromium
    pages: int = 0
    is_retired: bool = False

    @property
    def is_usable(self) -> bool:
        return self.chromium.is_connected() and not self.is_retired


class Browser:
    """Opens pages, each without a memory of the others."""

    def __init__(self, program: str, *, user_agent: str, most_pages: int, most_mb: float) -> None:
        self._program = program
        self._user_agent = user_agent
        self._most_mb = most_mb
        self._places = asyncio.Semaphore(most_pages)
        self._starting = asyncio.Lock()
        self._driver: Playwright | None = None
        self._running: _Running | None = None

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait until there is room for one more page, in a browser that runs."""
        async with self._places:
            await self._usable()
            yield

    @asynccontextmanager
    async def context(self) -> AsyncIterator[BrowserContext]:
        """For one page, as if of a browser that was never used before."""
        running = await self._usable()
        running.pages += 1
        try:
            context = await self._new_context(running)
            try:
                yield context
            finally:
                await _closed_in_time(context)
        finally:
            running.pages -= 1
            await self._look_after(running)

    async def _new_context(self, running: _Running) -> BrowserContext:
        try:
            return await running.chromium.new_context(
                user_agent=self._user_agent, service_workers="block", accept_downloads=False
            )
        except Exception:
            running.is_retired = True  # one whose driver has died still counts as connected
            raise

    async def close(self) -> None:
        """End it."""
        if self._running is not None:
            await _closed_in_time(self._running.chromium)
        await self._stop_driver()

    async def _usable(self) -> _Running:
        async with self._starting:
            if self._running is None or not self._running.is_usable:
                self._running = _Running(await self._launch())
            return self._running

    async def _launch(self) -> Chromium:
        if self._driver is not None:
            with suppress(Exception):
                return await self._launch_by(self._driver)
            await self._stop_driver()  # it may have died: then another starts one
        from playwright.async_api import async_playwright

        self._driver = await async_playwright().start()
        return await self._launch_by(self._driver)

    async def _launch_by(self, driver: Playwright) -> Chromium:
        return await driver.chromium.launch(
            executable_path=self._program,
            args=list(ARGUMENTS),
            chromium_sandbox=os.geteuid() != 0,  # Chromium has none for root
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )

    async def _stop_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(Exception):
                await asyncio.wait_for(driver.stop(), CLOSING_S)

    async def _look_after(self, running: _Running) -> None:
        """Replace a browser that has grown, once its last page is closed."""
        if running.chromium.is_connected() and not running.is_retired:
            with suppress(Exception):  # it may be dying: the next page will see
                size_mb = await memory_mb(running.chromium)
                if size_mb > self._most_mb:
                    logger.info("The browser has grown to %d MB: starting another", size_mb)
                    running.is_retired = True
        if running.is_retired and not running.pages:
            await _closed_in_time(running.chromium)


async def memory_mb(chromium: Chromium) -> float:
    """What all processes of a browser take, shared pages counted for each."""
    import psutil

    session = await chromium.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    total = 0
    for process in found["processInfo"]:
        with suppress(psutil.Error):
            total += psutil.Process(process["id"]).memory_info().rss
    return total / 2**20


async def _closed_in_time(closable: BrowserContext | Chromium) -> None:
    with suppress(Exception):
        await asyncio.wait_for(closable.close(), CLOSING_S)
