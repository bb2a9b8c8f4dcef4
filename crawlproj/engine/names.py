"""Every name of Scrapy's that is relied on and that is not its public interface, with the reason.

A name that is missing (another Scrapy) is found here, once, when a process starts: see versions.py
for what happens then. `tests/unit/test_private_scrapy.py` holds this table against the code of
this room, against the installed Scrapy, and against all other rooms, which touch none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple


class Name(NamedTuple):
    """One name, and what it takes the place of."""

    where: str
    """`module` or `module:Class`."""
    name: str
    why: str
    """What Scrapy's public interface does not do."""


_ENGINE = "scrapy.core.engine:ExecutionEngine"
_SLOT = "scrapy.core.engine:_Slot"
_SCRAPER = "scrapy.core.scraper:Scraper"
_DOWNLOADER = "scrapy.core.downloader:Downloader"
_DOWNLOAD_SLOT = "scrapy.core.downloader:Slot"
_HANDLERS = "scrapy.core.downloader.handlers:DownloadHandlers"
_MIDDLEWARES = "scrapy.middleware:MiddlewareManager"
_DOWNLOADER_MIDDLEWARES = "scrapy.core.downloader.middleware:DownloaderMiddlewareManager"
_SPIDER_MIDDLEWARES = "scrapy.core.spidermw:SpiderMiddlewareManager"
_FEEDS = "scrapy.extensions.feedexport:FeedExporter"
_FEED = "scrapy.extensions.feedexport:FeedSlot"
_POSTPROCESSING = "scrapy.extensions.postprocessing"
_CSV = "scrapy.exporters:CsvItemExporter"
_COOKIES = "scrapy.downloadermiddlewares.cookies:CookiesMiddleware"
_MEMORY = "scrapy.extensions.memusage:MemoryUsage"

NEEDED = (
    # watch.py
    Name(_ENGINE, "_slot", "no signal tells that a request has ended, whichever way it went"),
    Name(_ENGINE, "_start", "whether start() may still yield: a crawl must not end before"),
    Name(_ENGINE, "downloader", "leads to the middlewares and handlers below"),
    Name(_ENGINE, "scraper", "leads to the spider middlewares"),
    Name(_SLOT, "inprogress", "the set that a request leaves when it has ended"),
    Name(_SLOT, "nextcall", "wakes an engine that has been told that there is nothing to do"),
    Name(_SLOT, "closing", "whether the engine takes requests: none is leased any more then"),
    Name(_SCRAPER, "spidermw", "a callback is told of before it begins, in any project's settings"),
    Name(_SCRAPER, "itemproc", "a row is looked at before any item pipeline of a project"),
    Name(_DOWNLOADER, "middleware", "an error that no middleware has dealt with has no signal"),
    Name(_DOWNLOADER, "handlers", "downloads are broken off when leases may be another's"),
    Name(_HANDLERS, "_handlers", "the same"),
    Name(_MIDDLEWARES, "methods", "the last to hear of an error, whatever a project has set"),
    Name(_MIDDLEWARES, "middlewares", "all extensions of a class: get_extension() tells of one"),
    Name(_DOWNLOADER_MIDDLEWARES, "_process_response", "what a middleware raises has no signal"),
    # cookies.py
    Name(_COOKIES, "_process_cookies", "Scrapy asks the network for the list of public suffixes"),
    Name(_COOKIES, "_get_request_cookies", "reads `cookies=` of a request as Scrapy does"),
    Name(_COOKIES, "_debug_cookie", "COOKIES_DEBUG"),
    Name(_COOKIES, "_debug_set_cookie", "COOKIES_DEBUG"),
    # responses.py
    Name("scrapy.responsetypes", "responsetypes", "the class of a response by its content type"),
    # commands.py, addons.py
    Name("scrapy.commands:BaseRunSpiderCommand", "_create_crawler", "exit codes by how it closed"),
    Name("scrapy.commands.fetch:Command", "_print_response", "exit code 1 without a response"),
    Name("scrapy.commands.parse:Command", "first_response", "exit code 1 without a response"),
    Name("scrapy.addons:AddonManager", "load_pre_crawler_settings", "settings before a crawler is"),
    # feeds.py, plain.py
    Name(_FEEDS, "slots", "a feed that fails keeps a row from no other; buffers are handed over"),
    Name(_FEED, "file", "the same"),
    Name(_FEED, "filter", "a feed that does not take a row is not asked whether it is full"),
    # memory_limit.py
    Name(_MEMORY, "limit", "a limit goes by the memory in use, not by the peak"),
    Name(_MEMORY, "tasks", "ends our look at the memory with Scrapy's"),
    Name(_MEMORY, "check_interval", "as often as Scrapy looks"),
    Name(_MEMORY, "get_virtual_size", "a limit goes by the memory in use, not by the peak"),
)
"""Without one of these nothing can be promised: a worker refuses to start."""

QUICKER = (
    # flow.py
    Name(_ENGINE, "_start_scheduled_request", "a dozen Deferreds and five tasks a request"),
    Name(_SCRAPER, "_scrape", "the scraper's part of a request, awaited in its task"),
    Name(_SCRAPER, "_check_if_closing", "the same"),
    Name(_SCRAPER, "slot", "the count of responses in hand, by which Scrapy holds back"),
    # callbacks.py
    Name(_SCRAPER, "call_spider_async", "two rounds of the event loop before each callback"),
    Name(_SCRAPER, "_process_spidermw_output_async", "a queue and two tasks a page"),
    Name(_SCRAPER, "handle_spider_output_async", "the same"),
    Name(_SCRAPER, "concurrent_items", "the same"),
    Name("scrapy:Spider", "_parse", "the callback of a request that names none"),
    Name(_SPIDER_MIDDLEWARES, "scrape_response_async", "an iterator a middleware and page"),
    Name(_SPIDER_MIDDLEWARES, "_process_spider_input", "the same"),
    Name(_SPIDER_MIDDLEWARES, "_process_spider_exception", "the same"),
    # downloader.py
    Name("scrapy.exceptions", "_InvalidOutput", "what Scrapy raises for a wrong return value"),
    Name(_DOWNLOADER_MIDDLEWARES, "_process_request", "a coroutine around plain return values"),
    Name(_DOWNLOADER_MIDDLEWARES, "_handle_mw_method", "the same"),
    Name(_MIDDLEWARES, "_mw_methods_requiring_spider", "methods of the old kind"),
    Name(_HANDLERS, "_old_style_handlers", "handlers of the old kind go Scrapy's way"),
    Name(_DOWNLOADER, "_enqueue_request", "two tasks and three Deferreds a request"),
    Name(_DOWNLOADER, "_get_slot", "the same"),
    Name(_DOWNLOADER, "_download", "the same"),
    Name(_DOWNLOADER, "slots", "the same"),
    Name(_DOWNLOADER, "active", "the same"),
    Name(_DOWNLOADER, "ip_concurrency", "a slot that goes by the address goes Scrapy's way"),
    Name(_DOWNLOAD_SLOT, "free_transfer_slots", "whether a request has to wait in its slot"),
    Name(_DOWNLOAD_SLOT, "latercall", "the same"),
    Name(_DOWNLOAD_SLOT, "lastseen", "the same"),
    # item_pipelines.py, stats.py
    Name("scrapy.pipelines:ItemPipelineManager", "_spider", "pipelines of the old kind"),
    Name("scrapy.statscollectors:StatsCollector", "_stats", "a check at each use of a method"),
    # feeds.py, exporters.py
    Name(_FEEDS, "_start_new_batch", "files are begun anew by size and age, never added to"),
    Name(_FEEDS, "_schedule_slot_close", "the same"),
    Name(_FEEDS, "_get_uri_params", "the same; and a name that cannot be is refused at the start"),
    Name(_FEEDS, "_get_storage", "the same"),
    Name(f"{_POSTPROCESSING}:PostProcessingManager", "head_plugin", "gzip is flushed with rows"),
    Name(f"{_POSTPROCESSING}:GzipPlugin", "gzipfile", "gzip is flushed with rows"),
    Name(_CSV, "_headers_not_written", "rows of ours are written without a look at each field"),
    Name(_CSV, "_build_row", "no cell begins as a formula does, whatever the item"),
    Name(_CSV, "csv_writer", "rows of ours are written without a look at each field"),
)
"""Without one of these Scrapy's own parts do the work, and take longer."""


def missing(names: Iterable[Name]) -> Iterator[str]:
    """Those that the installed Scrapy does not have."""
    return (f"{one.where}.{one.name}" for one in names if not _has(one))


def _has(wanted: Name) -> bool:
    module, _, inside = wanted.where.partition(":")
    try:
        found: Any = import_module(module)
        found = getattr(found, inside) if inside else found
    except (ImportError, AttributeError):
        return False
    if not isinstance(found, type):
        return hasattr(found, wanted.name)
    return any(wanted.name in vars(one) or wanted.name in attributes(one) for one in found.__mro__)


def attributes(kind: type) -> Iterable[str]:
    """Attributes that the methods of a class set or use."""
    codes = (getattr(one, "__code__", None) for one in vars(kind).values())
    return chain.from_iterable(code.co_names for code in codes if code is not None)
