"""A project of somebody else's that has the add-on in its settings, and no more of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Route

SETTINGS = """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop"]
ADDONS = {"crawlproj.addon.Addon": 0}
CRAWL_ALLOW_ADDRESSES = "loopback"
EXTENSIONS = {"shop.Bell": 500}
"""

SPIDER = """
import scrapy


class Bell:
    @classmethod
    def from_crawler(cls, crawler):
        crawler.signals.connect(cls.ring, scrapy.signals.spider_closed)
        return cls()

    @staticmethod
    def ring(spider):
        spider.logger.info("the bell rings")


class ShopSpider(scrapy.Spider):
    name = "shop"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"shop.Nothing": None}}

    async def start(self):
        yield scrapy.Request(self.first)

    def parse(self, response):
        if response.headers[b"Content-Type"] == b"application/json":
            yield {"title": response.json()["title"]}
            return
        yield {"title": response.css("title::text").get()}
        yield from response.follow_all(css="a")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop_settings\n")
    (tmp_path / "shop_settings.py").write_text(SETTINGS)
    (tmp_path / "shop.py").write_text(SPIDER)
    return tmp_path


def test_it_has_the_frontier_the_pace_robots_txt_and_the_files(fleet: Fleet) -> None:
    routes: dict[str, Route] = {
        "/": Reply(body=b"<title>shop</title><a href=/a>a</a><a href=/no>b</a><a href=/gone>c</a>"),
        "/a": Reply(body=b"<title>a</title>"),
        "/robots.txt": Reply(body=b"User-agent: *\nDisallow: /no"),
    }
    with Origin(routes) as origin:
        worker = fleet.start(spider="shop", first=origin.url("/"))
        assert worker.wait() == "finished", worker.log
    asked = [request.path for request in origin.requests()]
    assert asked[:2] == ["/robots.txt", "/"]
    assert sorted(asked[2:]) == ["/a", "/gone"]
    assert "the bell rings" in worker.log
    assert [row["reason"] for row in fleet.rows("failures", "shop")] == ["http_404"]
    items = [
        json.loads(line)
        for part in (fleet.output / "shop").glob("items-*.jsonl")
        for line in part.read_text().splitlines()
    ]
    assert sorted(one["title"] for one in items) == ["a", "shop"]
    assert (fleet.output / "shop" / "summary.json").exists()


def test_its_callbacks_can_read_json(fleet: Fleet) -> None:
    kind = {"Content-Type": "application/json"}
    routes: dict[str, Route] = {"/api": Reply(headers=kind, body=b'{"title": "from json"}')}
    with Origin(routes) as origin:
        worker = fleet.start(spider="shop", first=origin.url("/api"))
        assert worker.wait() == "finished", worker.log
    [part] = (fleet.output / "shop").glob("items-*.jsonl")
    assert json.loads(part.read_text()) == {"title": "from json"}
