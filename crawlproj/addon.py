"""The one door: a Scrapy add-on that puts every part of the package in its place.

    ADDONS = {"crawlproj.addon.Addon": 0}

It says which classes do the work, so that a project's settings hold choices alone. Whatever a
project, a spider, a command or the command line has set stays as it is: parts of ours are added to
its middlewares, extensions, handlers and feeds, and one that is set to None there stays out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.settings import get_settings_priority

from crawlproj.output.feeds import STORAGES, completed, default_feeds

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

HANDLER = "crawlproj.fetch.handler.SafeDownloadHandler"
TUNNEL_ERROR = "scrapy.core.downloader.handlers.http11.TunnelError"

PLAIN: dict[str, Any] = {
    # The shared frontier
    "SCHEDULER": "crawlproj.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "crawlproj.dupefilter.SeenFilter",
    # The frontier keeps each host's pace for all workers, so Scrapy's own must not.
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1000,
    "ROBOTSTXT_OBEY": True,
    "POLITENESS_ROBOTS": True,
    # Scrapy's own parts, doing the same for less (crawlproj/engine)
    "STATS_CLASS": "crawlproj.engine.parts.Stats",
    "DOWNLOADER": "crawlproj.engine.parts.Downloader",
    "ITEM_PROCESSOR": "crawlproj.engine.parts.ItemPipelines",
    "CONCURRENT_ITEMS": 1,
    # What Scrapy leaves open
    "DOWNLOAD_VERIFY_CERTIFICATES": True,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    # Output
    "CRAWL_REPORTS": True,
    "FEED_EXPORT_ENCODING": "utf-8",
    "FEED_URI_PARAMS": "crawlproj.output.feeds.uri_params",
    "LOG_FORMATTER": "crawlproj.engine.quiet_log.QuietLogFormatter",
    # A misspelt name of ours stops the start.
    "CRAWL_STRICT": True,
}
"""Settings with one value."""

PARTS: dict[str, dict[str, Any]] = {
    "DOWNLOADER_MIDDLEWARES": {
        # The frontier and the download handler do what these do.
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
        "crawlproj.fetch.content.ContentMiddleware": 390,
        "crawlproj.discover.priority_middleware.PriorityMiddleware": 400,
        "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
        "crawlproj.fetch.cookies.CookiesMiddleware": 700,
        # Nearer to the server than retries and redirects, which hide what they send on.
        "crawlproj.politeness.middleware.PolitenessMiddleware": 845,
        "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
        "crawlproj.engine.parts.DownloaderStats": 850,
    },
    "DOWNLOAD_HANDLERS": {
        "http": HANDLER,
        "https": HANDLER,
        "data": None,
        "file": None,
        "ftp": None,
        "s3": None,
    },
    "EXTENSIONS": {
        "crawlproj.engine.garbage.RareCollections": 0,
        "scrapy.extensions.feedexport.FeedExporter": None,
        "crawlproj.output.feeds.FlushingFeedExporter": 0,
        "crawlproj.operate.progress.Progress": 100,
        "crawlproj.operate.notify.Notifier": 100,
        "crawlproj.operate.worker_metrics.WorkerMetrics": 100,
        "scrapy.extensions.logstats.LogStats": None,
        "scrapy.extensions.memusage.MemoryUsage": None,
        "crawlproj.engine.memory_limit.MemoryLimit": 0,
    },
    "FEED_STORAGES": STORAGES,
    "FEED_EXPORTERS": {
        "csv": "crawlproj.output.rows.CsvRowExporter",
        **dict.fromkeys(("jsonlines", "jsonl", "jl"), "crawlproj.output.rows.JsonRowExporter"),
    },
}
"""Settings that a project adds to."""


class Addon:
    """Called by Scrapy twice: before it looks for spiders, and with the settings of the one that
    was found."""

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        set_up(settings)

    def update_settings(self, settings: BaseSettings) -> None:
        set_up(settings)
        _retry_what_ours_raise(settings)


def set_up(settings: BaseSettings) -> None:
    """Put our parts wherever nobody has chosen another."""
    for name, value in PLAIN.items():
        if not settings.getpriority(name):  # nobody has set it, or it is Scrapy's default
            settings.set(name, value, priority="addon")
    for name, parts in PARTS.items():
        _add(settings, name, parts)
    _add(settings, "FEEDS", default_feeds())
    feeds = settings.getdict("FEEDS")
    if settings.get("FEED_URI"):  # of old; Scrapy goes by FEEDS where both name a file
        feeds.setdefault(settings["FEED_URI"], {"format": settings["FEED_FORMAT"]})
    feeds = {uri: completed(feed) for uri, feed in feeds.items()}
    settings.set("FEEDS", feeds, priority=settings.getpriority("FEEDS") or "addon")


def _retry_what_ours_raise(settings: BaseSettings) -> None:
    """Leave out of Scrapy's RETRY_EXCEPTIONS what only its own handler raises: to load that module
    for the name takes each worker longer than any other at its start."""
    handlers = settings.getdict("DOWNLOAD_HANDLERS")
    is_ours = all(handlers[scheme] == HANDLER for scheme in ("http", "https"))
    if is_ours and not settings.getpriority("RETRY_EXCEPTIONS"):
        raised = [one for one in settings["RETRY_EXCEPTIONS"] if one != TUNNEL_ERROR]
        settings.set("RETRY_EXCEPTIONS", raised, priority="addon")


def _add(settings: BaseSettings, name: str, parts: dict[str, Any]) -> None:
    priority = max(settings.getpriority(name) or 0, get_settings_priority("addon"))
    settings.set(name, {**parts, **settings.getdict(name)}, priority=priority)
