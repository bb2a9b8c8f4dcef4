"""Many hosts: wide rather than deep, tight budgets, no referer kept."""

from settings.base import *  # noqa: F403

CRAWL_SCOPE = "any"
CRAWL_PAGES_PER_HOST = 500
CRAWL_PATTERNS = "alike"
CRAWL_TRAP_QUERIES = 1000
CONCURRENT_REQUESTS = 128
POLITENESS_DELAY = 1.0
DOWNLOAD_TIMEOUT = 15
DOWNLOAD_MAXSIZE = 2 * 1024 * 1024
SEEN_CAPACITY = 50_000_000
RETRY_TIMES = 1
