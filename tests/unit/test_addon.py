"""The add-on puts every part in its place, wherever nobody has chosen another."""

from __future__ import annotations

import pytest
from scrapy.addons import AddonManager
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from crawlproj import addon
from crawlproj.items import PageItem
from crawlproj.output.feeds import ForPeople, default_feeds

STATS = "scrapy.statscollectors.MemoryStatsCollector"
CONTENT = "crawlproj.fetch.content.ContentMiddleware"


def set_up(values: dict[str, object], priority: str = "project") -> Settings:
    """The settings of a project with these, when Scrapy has called the add-on both times."""
    settings = Settings()
    settings.setdict(values, priority=priority)
    addon.Addon.update_pre_crawler_settings(settings)
    addon.Addon().update_settings(settings)
    return settings


def test_every_class_that_it_names_is_there() -> None:
    named = [one for one in addon.PLAIN.values() if isinstance(one, str) and "." in one]
    for parts in addon.PARTS.values():
        named += [one for pair in parts.items() for one in pair if "." in str(one)]
    assert len(named) > 20
    for path in named:
        assert load_object(path)


def test_a_project_that_chose_nothing_has_all_of_it() -> None:
    settings = set_up({})
    assert {name: settings[name] for name in addon.PLAIN} == addon.PLAIN
    for name, parts in addon.PARTS.items():
        assert parts.items() <= settings.getdict(name).items()
    assert settings.getdict("FEEDS").keys() == default_feeds().keys()


@pytest.mark.parametrize("priority", ["command", "project", "spider", "cmdline"])
def test_what_is_chosen_stays(priority: str) -> None:
    settings = set_up({"STATS_CLASS": STATS}, priority)
    assert settings["STATS_CLASS"] == STATS


def test_parts_are_added_to_those_of_the_project() -> None:
    own = {"shop.middlewares.Prices": 500, CONTENT: None}
    settings = set_up({"DOWNLOADER_MIDDLEWARES": own, "FEEDS": {"all.json": {"format": "json"}}})
    middlewares = settings.getdict("DOWNLOADER_MIDDLEWARES")
    assert (middlewares["shop.middlewares.Prices"], middlewares[CONTENT]) == (500, None)
    assert middlewares["crawlproj.politeness.middleware.PolitenessMiddleware"] == 845
    assert settings.getdict("FEEDS").keys() == {"all.json", *default_feeds()}


def test_what_only_scrapys_own_handler_raises_is_not_loaded_to_be_retried() -> None:
    assert addon.TUNNEL_ERROR in Settings()["RETRY_EXCEPTIONS"]
    retried = set_up({})["RETRY_EXCEPTIONS"]
    assert [*retried, addon.TUNNEL_ERROR] == Settings()["RETRY_EXCEPTIONS"]
    assert set_up({"RETRY_EXCEPTIONS": [addon.TUNNEL_ERROR]})["RETRY_EXCEPTIONS"] == [
        addon.TUNNEL_ERROR
    ]


def test_whoever_has_another_handler_retries_what_it_raises() -> None:
    settings = set_up({"DOWNLOAD_HANDLERS": {"https": "shop.handlers.Tunnel"}}, "spider")
    assert addon.TUNNEL_ERROR in settings["RETRY_EXCEPTIONS"]


def test_a_feed_that_names_no_classes_holds_no_rows_about_ourselves() -> None:
    given = {"all.json": {"format": "json"}, "some.csv": {"item_classes": [PageItem]}}
    settings = set_up({"FEEDS": given, "FEED_URI": "old.xml", "FEED_FORMAT": "xml"})
    feeds = settings.getdict("FEEDS")
    assert feeds["all.json"]["item_filter"] is feeds["old.xml"]["item_filter"] is ForPeople
    assert feeds["old.xml"]["format"] == "xml"
    assert feeds["some.csv"] == {"item_classes": [PageItem]}


def test_the_benchmarks_write_csv_alone_as_their_peers_do() -> None:
    settings = Settings()
    settings.setmodule("benchmarks.settings")
    AddonManager.load_pre_crawler_settings(settings)
    assert {feed["format"] for feed in settings.getdict("FEEDS").values()} == {"csv"}
