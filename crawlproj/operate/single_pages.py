"""Scrapy's own commands that look at single pages (shell, fetch, view, parse, check, bench), and
spiders of a file: they do here what they do in any project, and go without the frontier. No Redis
is asked for, no crawl is joined, begun or ended, and no file of one is written.

The address guard holds for them too. A URL that the user types may be at any address, as a seed
may; for what that leads to, and for spiders, -s CRAWL_ALLOW_ADDRESSES=loopback means one's own
machine.
"""

from __future__ import annotations

import argparse
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.url import add_http_if_no_scheme

from crawlproj.config import environment
from crawlproj.engine.addons import apply_addons
from crawlproj.engine.commands import TellsOfResponse
from crawlproj.operate.command import check_profile
from crawlproj.output.feeds import default_feeds
from crawlproj.running import TYPED_HOSTS, is_in_use
from crawlproj.urls import UrlError, normalise

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)

PLAIN = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
    "CRAWL_REPORTS": False,
}
OURS = "crawlproj."
ADDON = "crawlproj.addon.Addon"
ROBOTS = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
COOKIES = "crawlproj.fetch.cookies.CookiesMiddleware"
OWN_COOKIES = "crawlproj.fetch.cookies.OfflineCookies"
COUNTS = "crawlproj.engine.parts.DownloaderStats"
_PRIORITY = (SETTINGS_PRIORITIES["spider"] + SETTINGS_PRIORITIES["cmdline"]) // 2
"""Above what a spider says, below what the user does."""


def leave_frontier(settings: BaseSettings) -> bool:
    """Have Scrapy's scheduler where a project has ours; False if it has not."""
    apply_addons(settings)
    if not is_in_use(settings):
        return False
    # The add-on has been applied, and would set everything a second time.
    settings.set("ADDONS", {**settings.getdict("ADDONS"), ADDON: None}, priority=_PRIORITY)
    for name, value in PLAIN.items():
        settings.set(name, value, priority=_PRIORITY)
    ours = default_feeds()
    feeds = {uri: feed for uri, feed in settings.getdict("FEEDS").items() if uri not in ours}
    settings.set("FEEDS", feeds, priority="cmdline")
    settings.set("DOWNLOADER_MIDDLEWARES", _middlewares(settings), priority=_PRIORITY)
    if environment.given(settings, "CRAWL_COOKIES"):  # shared with nobody
        settings.set("COOKIES_ENABLED", True, priority=_PRIORITY)
    if settings.get("LOG_LEVEL") != "DEBUG":
        logging.getLogger(ROBOTS.rpartition(".")[0]).addFilter(_in_one_line)
    return True


def _in_one_line(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


def _middlewares(settings: BaseSettings) -> dict[str, Any]:
    """Those of the project, without ours, which serve the frontier; and what they stood for."""
    given = settings.getdict("DOWNLOADER_MIDDLEWARES")
    is_ours = {name for name in given if isinstance(name, str) and name.startswith(OURS)}
    off: dict[str, Any] = dict.fromkeys(is_ours - {COUNTS})
    kept = {ROBOTS: 100} if ROBOTS in given else {}
    kept |= {OWN_COOKIES: given[COOKIES]} if given.get(COOKIES) else {}
    return {**given, **off, **kept, f"{__name__}.{OneLineErrors.__name__}": 1}


class OneLineErrors:
    """A downloader middleware that says in one line why a page could not be had."""

    def process_exception(self, request: Request, exception: Exception) -> None:
        logger.error("%s: %s", request.url, str(exception) or type(exception).__name__)


class WithoutFrontier(ScrapyCommand):
    """To be mixed into a command of Scrapy's."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        check_profile()
        super().process_options(args, opts)
        assert self.settings is not None
        self.has_left = leave_frontier(self.settings)
        if self.has_left:
            self.adapt(self.settings, args)

    def adapt(self, settings: BaseSettings, args: list[str]) -> None:
        """Change what else is different for this command."""


class FetchesOnePage(WithoutFrontier, TellsOfResponse):
    """`fetch` and `view`: exit with 1 if there was no answer."""

    def adapt(self, settings: BaseSettings, args: list[str]) -> None:
        allow_typed(settings, args)
        open_local_files(settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        super().run(args, opts)
        if self.has_left and not self.has_response:
            self.exitcode = 1


def allow_typed(settings: BaseSettings, urls: list[str]) -> None:
    """Let the URLs that a user types be at any address."""
    names = []
    for url in urls:
        with suppress(UrlError):
            names.append(normalise(add_http_if_no_scheme(url)).authority)
    settings.set(TYPED_HOSTS, names, priority=_PRIORITY)


def open_local_files(settings: BaseSettings) -> None:
    """Let the URL that a user types be a file of this machine, as in Scrapy."""
    handlers = settings.getdict("DOWNLOAD_HANDLERS")
    handlers["file"] = "scrapy.core.downloader.handlers.file.FileDownloadHandler"
    handlers["data"] = "scrapy.core.downloader.handlers.datauri.DataURIDownloadHandler"
    settings.set("DOWNLOAD_HANDLERS", handlers, priority=_PRIORITY)
