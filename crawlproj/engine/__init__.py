"""Everything that bends Scrapy beyond its public interface, and nothing else: what is asked of its
engine (`watch.py`), and Scrapy's own parts, doing the same for less.

Scrapy pays for every page what only some crawls need: a task for each layer between engine and
handler, a coroutine around each plain return value, a look for receivers of signals that nobody
hears. What stands here does the same work for the same middlewares, pipelines and receivers, and
pays when it is needed. Most parts are named by one of Scrapy's settings (through `parts.py`), and
can be set back to Scrapy's own; none is used with a Scrapy that they were not tested with
(`versions.py`).

| setting | here |
|---|---|
| `STATS_CLASS` | `stats.Stats` |
| `DOWNLOADER` | `downloader.Downloader` |
| `ITEM_PROCESSOR` | `item_pipelines.ItemPipelines` |
| `DOWNLOADER_MIDDLEWARES` | `counts.DownloaderStats` |

What no setting names (`flow.py`, `signals.py`) is put in place by `watch.py`, with the Scrapy that
it was written for. `tests/contract/test_lean.py` holds every part against Scrapy's.
"""
