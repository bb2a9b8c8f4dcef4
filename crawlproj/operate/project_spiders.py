"""The spiders of the project that a command runs in: a project of somebody else's may lack `site`,
and what its workers would write, so that hints name what is there and what to add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.spiderloader import get_spider_loader

from crawlproj.errors import ConfigError
from crawlproj.output.feeds import default_feeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

SITE = "site"
MODULE = "crawlproj.spider"
"""Where a project has that spider from that has none of the name itself."""
ADDON = 'ADDONS = {"crawlproj.addon.Addon": 0}'


def example(spiders: Sequence[str]) -> str:
    """The spider to name in an example."""
    return SITE if SITE in spiders or not spiders else spiders[0]


def how_to_begin(settings: BaseSettings) -> str:
    """What to type for a first crawl in this project."""
    spider = example(get_spider_loader(settings).list())
    seeds = " -a seeds=https://example.com" if spider == SITE else ""
    return f"scrapy crawl {spider}{seeds}"


def writes_files(settings: BaseSettings) -> bool:
    """Whether workers write the files that a crawl leaves, as they do with the add-on."""
    return not default_feeds().keys().isdisjoint(settings.getdict("FEEDS"))


def how_to_have_site(settings: BaseSettings) -> str:
    """What to add to the settings of a project so that it has the spider `site`."""
    modules = [MODULE, *settings.getlist("SPIDER_MODULES")]
    listed = ", ".join(f'"{module}"' for module in modules)
    addon = "" if writes_files(settings) else f" and {ADDON}"
    return f"SPIDER_MODULES = [{listed}]{addon}"


def require_site(settings: BaseSettings, command: str) -> None:
    """Raise ConfigError for a command that crawls with `site` and reads its files, if the project
    lacks the one or the other."""
    lacks_site = SITE not in get_spider_loader(settings).list()
    if lacks_site:
        add = how_to_have_site(settings)
    elif not writes_files(settings):
        add = ADDON
    else:
        return
    lacking = f"the spider {SITE}" if lacks_site else f"the files that {SITE} writes"
    raise ConfigError(
        f"{command} needs {lacking}, which this project lacks: add {add} to its settings, or run "
        "it in a folder that is no Scrapy project"
    )
