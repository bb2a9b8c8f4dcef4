"""A response becomes one whose scripts have run, within limits of time and size."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from scrapy.exceptions import DownloadCancelledError
from scrapy.http.request import NO_CALLBACK

from crawlproj.config import Config
from crawlproj.config.choices import RENDER_ALWAYS, RENDER_AUTO
from crawlproj.errors import BrowserFailed
from crawlproj.fetch.content import content_type
from crawlproj.fetch.rendering.browser import Browser, find_browser
from crawlproj.fetch.rendering.errands import Errands, Fetch, Means, Scripts, Turns
from crawlproj.fetch.rendering.need import needs_scripts
from crawlproj.frontier.meta_keys import RENDER_S
from crawlproj.running import running_crawl

if TYPE_CHECKING:
    from playwright.async_api import Page
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

RENDERED = "rendered"
"""Flag of a response whose scripts have run."""
GRACE_S = 5.0
"""For a browser that does not answer, beyond the time that a page has."""
_MARKUP = """(() => {
    const root = document.documentElement, kind = document.doctype;
    const markup =
        (kind ? new XMLSerializer().serializeToString(kind) : "") + (root ? root.outerHTML : "");
    return markup.length > %s ? markup.length : markup;
})()"""
"""What a page is made of, or how long that is, if that is too long. UTF-8 has no fewer bytes."""
_HTML = ("text/html", "application/xhtml+xml", "")


class Renderer:
    """Runs the scripts of a worker's pages; `fetch` is how everything else is asked for."""

    def __init__(self, crawler: Crawler, mode: str, fetch: Fetch) -> None:
        config = Config.from_settings(crawler.settings)
        self._crawler = crawler
        self._needs = _chosen(mode)
        self._timeout_s = config.render_timeout_s
        self._has_failed = False
        self._most_bytes = crawler.settings.getint("DOWNLOAD_MAXSIZE")
        manners = Manners(crawler)
        self._means = Means(fetch, manners, Scripts(), Turns(), frozenset(config.render_hosts))
        self._browser = Browser(
            find_browser(config.browser),
            user_agent=str(crawler.settings["USER_AGENT"]),
            most_pages=config.render_pages,
            most_mb=config.render_memory_mb,
        )

    def is_wanted(self, request: Request, response: Response) -> bool:
        """Whether this is a page of the spider's that needs its scripts."""
        return (
            response.status == 200
            and request.method == "GET"
            and request.callback is not NO_CALLBACK
            and content_type(response.headers) in _HTML
            and bool(response.body)
            and self._needs(response)
        )

    async def render(self, request: Request, response: Response) -> Response:
        """The response with what its scripts have made of it. One that the browser fails at is
        tried again; that is not held against its host."""
        began_s = time.monotonic()
        response.request = request
        try:
            # A page's time begins with its place, or a few slow ones would fail all that wait.
            async with self._browser.place(), asyncio.timeout(self._timeout_s + GRACE_S):
                text = await self._run(response)
        except DownloadCancelledError:
            raise
        except TimeoutError:
            raise self._failure(
                f"the scripts of {response.url} did not end within {self._timeout_s:g} s"
            ) from None
        except Exception as error:
            said = str(error).partition("\n")[0]
            raise self._failure(f"{response.url} in the browser: {said}") from error
        finally:
            request.meta[RENDER_S] = time.monotonic() - began_s
        body = text.encode("utf-8", "replace")
        if 0 < self._most_bytes < len(body):
            raise _too_large(response.url, len(body))
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value("crawl/rendered")
        headers = response.headers.copy()
        headers["Content-Type"] = "text/html; charset=utf-8"
        return response.replace(body=body, headers=headers, flags=[*response.flags, RENDERED])

    async def close(self) -> None:
        await self._browser.close()

    def _failure(self, message: str) -> BrowserFailed:
        """Said in the log, for nothing else tells that it is the browser which fails; once, for
        one that cannot be started fails at every page."""
        level = logging.DEBUG if self._has_failed else logging.WARNING
        self._has_failed = True
        logger.log(level, "Tried again later: %s", message)
        return BrowserFailed(message)

    async def _run(self, response: Response) -> str:
        errands = Errands(response, self._means)
        try:
            async with self._browser.context() as context:
                await context.route("**/*", errands.answer)
                page = await context.new_page()
                context.on("page", lambda popup: asyncio.ensure_future(popup.close()))
                text = await self._content(page, response.url)
                await errands.end()
        finally:
            await errands.end()
        if errands.refused:
            logger.debug("%s: %d requests of scripts refused", response.url, errands.refused)
        return text + "".join(f'<a href="{escape(url)}"></a>' for url in errands.leads_to)

    async def _content(self, page: Page, url: str) -> str:
        """What is there when nothing is under way any more, or the time is over."""
        from playwright.async_api import TimeoutError as TooLate

        until_s = time.monotonic() + self._timeout_s
        await page.goto(url, wait_until="commit", timeout=1000 * self._timeout_s)
        try:
            left_ms = max(1.0, 1000 * (until_s - time.monotonic()))
            await page.wait_for_load_state("networkidle", timeout=left_ms)
        except TooLate:
            logger.debug("%s is taken as it is after %g s", url, self._timeout_s)
        return await self._markup(page, url)

    async def _markup(self, page: Page, url: str) -> str:
        """The page as it is now; one that is too large stays in the browser. It is asked in a world
        apart, where its scripts cannot have changed what `outerHTML` says."""
        session = await page.context.new_cdp_session(page)
        tree = await session.send("Page.getFrameTree")
        frame = {"frameId": tree["frameTree"]["frame"]["id"]}
        world = await session.send("Page.createIsolatedWorld", frame)
        asked = {
            "expression": _MARKUP % (self._most_bytes or "Infinity"),
            "contextId": world["executionContextId"],
            "returnByValue": True,
        }
        answer = await session.send("Runtime.evaluate", asked)
        found = answer["result"].get("value")
        if isinstance(found, str):
            return found
        if isinstance(found, int | float):
            raise _too_large(url, int(found))
        raise BrowserFailed(f"{url} has no markup that can be read")


class Manners:
    """Of a worker at a running crawl; of one without, such as `scrapy fetch`, none are known."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    def allows(self, host: str, url: str) -> bool:
        crawl = running_crawl(self._crawler)
        permission = crawl.permission if crawl else None
        return permission is None or permission.allows(host, url)

    def pause_s(self, host: str) -> float:
        crawl = running_crawl(self._crawler)
        if crawl is None:
            return 0.0
        own_s = crawl.frontier.overrides.for_host(host).delay_s
        delay_s = crawl.frontier.plan.delay_s if own_s is None else own_s
        asked_s = crawl.permission.delay_s(host) if crawl.permission else None
        return max(delay_s, min(asked_s or 0.0, crawl.config.longest_pause_s))


def _too_large(url: str, size: int) -> DownloadCancelledError:
    return DownloadCancelledError(f"{url} grew to {size} bytes by its scripts")


def _chosen(mode: str) -> Callable[[Response], bool]:
    """Which pages need their scripts, by the setting."""
    if mode == RENDER_ALWAYS:
        return lambda _: True
    if mode == RENDER_AUTO:
        return lambda response: needs_scripts(response.body)
    return partial(_matches, re.compile(mode))


def _matches(pattern: re.Pattern[str], response: Response) -> bool:
    return pattern.search(response.url) is not None
