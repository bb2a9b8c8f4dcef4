"""The item pipelines, in the order that items pass them.

1. `validate`  our own rows have every field, of the right type, or are dropped with a reason
2. `text`      text is one clean line that any encoding can write
3. `stats`     what is about to be written is counted

Scrapy's feed exports write what comes out at the end. Items of other classes, and dicts, pass too:
they are made writable, and are otherwise left as they are.
"""

ITEM_PIPELINES = {
    "pipelines.validate.ValidatePipeline": 100,
    "pipelines.text.TextPipeline": 200,
    "pipelines.stats.StatsPipeline": 300,
}

REPORT_PIPELINES = [*ITEM_PIPELINES]
"""Those that failures and stats pass too (CRAWL_REPORT_PIPELINES). Pipelines of your own see only
what spiders yield, unless they are added here."""
