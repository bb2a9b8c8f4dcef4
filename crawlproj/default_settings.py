"""The settings of a folder that is no Scrapy project, where the installed package is used alone:
`scrapy crawl site` and all other commands go by them (operate/profiles.py).

They say what `settings/base.py` says, which is a project's own copy to edit; a test keeps the two
alike. A user's own project never sees them.
"""

BOT_NAME = "crawlproj"
USER_AGENT = "crawlproj/0.7 (+https://example.com/bot)"
SPIDER_MODULES = ["crawlproj.spider"]
ADDONS = {"crawlproj.addon.Addon": 0}

FRONTIER_EMBEDDED = True

POLITENESS_DELAY = 0.25
POLITENESS_PER_HOST = 1
CONCURRENT_REQUESTS = 32

DOWNLOAD_TIMEOUT = 30
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0
COOKIES_ENABLED = False

ITEM_PIPELINES = {
    "crawlproj.output.pipelines.validate.ValidatePipeline": 100,
    "crawlproj.output.pipelines.text.TextPipeline": 200,
    "crawlproj.output.pipelines.stats.StatsPipeline": 300,
}
CRAWL_REPORT_PIPELINES = [*ITEM_PIPELINES]

LOG_LEVEL = "INFO"
