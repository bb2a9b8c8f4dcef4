"""Everything that touches more of Scrapy than its public interface; no other room does.

`names.py` lists each such name with the reason, and `versions.py` says with which Scrapy they may
be relied on. Three kinds of modules stand here:

- What Scrapy has no public interface for, and a crawl that loses nothing needs: what is asked of
  its engine (`watch.py`), responses, cookies, commands, add-ons, the memory limit. They are used
  with every Scrapy; one that lacks a name of theirs is refused, in one line.
- Doors into Scrapy's own parts, for the rooms that decide: when a feed's file is full (`feeds.py`),
  what a cell may hold (`exporters.py`).
- Scrapy's own parts, doing the same for less. Scrapy pays for every page what only some crawls
  need: a task for each layer between engine and handler, a coroutine around each plain return
  value, a look for receivers of signals that nobody hears. What stands here does the same work for
  the same middlewares, pipelines and receivers, and pays when it is needed.

The last two are taken from `parts.py`, which has Scrapy's own in their place (`plain.py`) with a
Scrapy that they were not tested with, that lacks a name, or with CRAWL_PLAIN_SCRAPY=1; the log says
so in one line. What no setting names (`flow.py`, `callbacks.py`, `signals.py`) is put in place by
`watch.py`.

| setting | here |
|---|---|
| `STATS_CLASS` | `stats.Stats` |
| `DOWNLOADER` | `downloader.Downloader` |
| `ITEM_PROCESSOR` | `item_pipelines.ItemPipelines` |
| `DOWNLOADER_MIDDLEWARES` | `counts.DownloaderStats` |

Knows settings and errors, and no other room. `tests/contract/test_lean.py` holds every part against
Scrapy's; `make plain` runs the crawls of the tests without them.
"""
