"""The default profile: one machine, embedded Redis, polite. The others hold only differences.

Ours begin with CRAWL_, FRONTIER_, POLITENESS_ or SEEN_ and are listed, each with its default, in
docs/settings.md; a misspelt one stops the start. Everything else is Scrapy's or scrapy-redis's.
"""

import pipelines

BOT_NAME = "crawlproj"
USER_AGENT = "crawlproj/0.7 (+https://example.com/bot)"
SPIDER_MODULES = ["spiders"]
NEWSPIDER_MODULE = "spiders"
COMMANDS_MODULE = "crawlproj.commands"
ADDONS = {"crawlproj.addon.Addon": 0}  # scheduler, dupefilter, middlewares, handlers, feeds

# Which Redis: a private one where REDIS_URL names none
FRONTIER_EMBEDDED = True

# How hosts are treated, by all workers together
POLITENESS_DELAY = 0.25
POLITENESS_PER_HOST = 1

# What one worker does at a time
CONCURRENT_REQUESTS = 32

# What a server can do to us
DOWNLOAD_TIMEOUT = 30
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0
COOKIES_ENABLED = False

# Items, which pass the pipelines in their order
ITEM_PIPELINES = pipelines.ITEM_PIPELINES
CRAWL_REPORT_PIPELINES = pipelines.REPORT_PIPELINES

LOG_LEVEL = "INFO"
