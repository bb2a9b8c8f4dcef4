"""The default profile: one machine, embedded Redis, polite. The others hold only differences.

Ours begin with CRAWL_, FRONTIER_, POLITENESS_ or SEEN_ and are listed, each with its default, in
the README; a misspelt one stops the start. Everything else is Scrapy's or scrapy-redis's.
"""

import pipelines
from crawlproj.output.feeds import default_feeds

BOT_NAME = "crawlproj"
USER_AGENT = "crawlproj/0.1 (+https://example.com/bot)"
SPIDER_MODULES = ["spiders"]
NEWSPIDER_MODULE = "spiders"
COMMANDS_MODULE = "crawlproj.commands"
CRAWL_STRICT = True

# The shared frontier
SCHEDULER = "crawlproj.scheduler.Scheduler"
DUPEFILTER_CLASS = "crawlproj.dupefilter.SeenFilter"
FRONTIER_EMBEDDED = True

# Politeness: the frontier keeps each host's pace for all workers, so Scrapy's own must not.
ROBOTSTXT_OBEY = True
POLITENESS_ROBOTS = True
POLITENESS_DELAY = 0.25
POLITENESS_PER_HOST = 1
DOWNLOAD_DELAY = 0
CONCURRENT_REQUESTS = 32
CONCURRENT_REQUESTS_PER_DOMAIN = 1000

# Scrapy's own parts, doing the same for less (crawlproj/engine)
STATS_CLASS = "crawlproj.engine.parts.Stats"
DOWNLOADER = "crawlproj.engine.parts.Downloader"
ITEM_PROCESSOR = "crawlproj.engine.parts.ItemPipelines"

DOWNLOADER_MIDDLEWARES = {
    # The frontier and the download handler do what these do.
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "crawlproj.fetch.content.ContentMiddleware": 390,
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
    "crawlproj.fetch.cookies.CookiesMiddleware": 700,
    "crawlproj.discover.priority_middleware.PriorityMiddleware": 400,
    # Nearer to the server than retries and redirects, which hide what they send on.
    "crawlproj.politeness.middleware.PolitenessMiddleware": 845,
    "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    "crawlproj.engine.parts.DownloaderStats": 850,
}

DOWNLOAD_HANDLERS = {
    "http": "crawlproj.fetch.handler.SafeDownloadHandler",
    "https": "crawlproj.fetch.handler.SafeDownloadHandler",
    "data": None,
    "file": None,
    "ftp": None,
    "s3": None,
}
DOWNLOAD_VERIFY_CERTIFICATES = True

# Limits on what a server can do to us
DOWNLOAD_TIMEOUT = 30
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0
COOKIES_ENABLED = False
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

# Items, which pass the pipelines in their order
ITEM_PIPELINES = pipelines.ITEM_PIPELINES
CRAWL_REPORT_PIPELINES = pipelines.REPORT_PIPELINES
CONCURRENT_ITEMS = 1

# Output
CRAWL_REPORTS = True
FEEDS = default_feeds()
FEED_EXPORT_ENCODING = "utf-8"
FEED_EXPORTERS = {
    "csv": "crawlproj.output.rows.CsvRowExporter",
    **dict.fromkeys(("jsonlines", "jsonl", "jl"), "crawlproj.output.rows.JsonRowExporter"),
}
EXTENSIONS = {
    "crawlproj.engine.garbage.RareCollections": 0,
    "scrapy.extensions.feedexport.FeedExporter": None,
    "crawlproj.output.feeds.FlushingFeedExporter": 0,
    "crawlproj.operate.progress.Progress": 100,
    "scrapy.extensions.logstats.LogStats": None,
    "scrapy.extensions.memusage.MemoryUsage": None,
    "crawlproj.worker.memory_limit.MemoryLimit": 0,
}
LOG_LEVEL = "INFO"
LOG_FORMATTER = "crawlproj.engine.quiet_log.QuietLogFormatter"
