"""Who looks at a crawl from outside goes by the settings of the spider that it was begun with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.settings import Settings

from crawlproj.frontier import seen_keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Push, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.operate.look_up import look_up
from crawlproj.operate.seeding import SeedAdder
from crawlproj.politeness import robots
from crawlproj.politeness.robots_store import RobotsStore
from crawlproj.server.connection import connect
from crawlproj.worker.join import seed_list_of, settings_of
from tests.lua.helpers import link, seed
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

HOST = "http://a"
FOR_SHOPPERS = b"User-agent: shopper\nDisallow: /private\n"


class WithoutQuery:
    """A fingerprinter to which pages that differ in their query are one."""

    def fingerprint(self, request: Request) -> bytes:
        return request.url.partition("?")[0].encode()


class Shop(Spider):
    name = "shop"
    custom_settings = {"REQUEST_FINGERPRINTER_CLASS": WithoutQuery, "USER_AGENT": "shopper"}


def settings(**more: Any) -> Settings:
    return Settings({"SPIDER_MODULES": [__name__], "USER_AGENT": "anybody", **more})


def fetched_by_shop(push: Push) -> Push:
    digest = WithoutQuery().fingerprint(Request(push.key))
    return push._replace(key=seen_keys.fingerprint(digest))


@asynccontextmanager
async def crawl_of_shop(url: str) -> AsyncIterator[Frontier]:
    """A crawl that is not called like its spider."""
    async with await connect(url) as client:
        frontier = Frontier(client, "docs", "w")
        await frontier.open(Plan(spider="shop", seen_capacity=1000), "run")
        await frontier.renew(60_000, {})
        yield frontier


async def done(frontier: Frontier, push: Push) -> None:
    await push_all(frontier, [fetched_by_shop(push)])
    [lease] = (await frontier.lease(1)).leases
    await frontier.settle([(lease.shard, Settlement(lease.token, "done"))])


async def test_the_settings_of_a_crawl_are_those_of_its_spider(redis_server: RedisServer) -> None:
    async with crawl_of_shop(redis_server.url) as frontier:
        agents = [
            (await settings_of(frontier.client, given, crawl))["USER_AGENT"]
            for given, crawl in (
                (settings(), "docs"),
                (settings(), "shop"),  # not begun: it will be, by the spider of that name
                (settings(), "other"),
                (settings(SPIDER_MODULES=[]), "docs"),
            )
        ]
    assert agents == ["shopper", "shopper", "anybody", "anybody"]


async def test_why_knows_a_page_by_the_fingerprinter_of_its_spider(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with crawl_of_shop(redis_server.url) as frontier:
        await done(frontier, link(HOST, "/page?id=1"))
        own = settings(CRAWL_OUTPUT=str(tmp_path))
        found = await look_up(frontier, own, f"{HOST}/page?id=2")
    assert found.state == "seen"


async def test_why_asks_robots_txt_in_the_name_of_the_spider(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with crawl_of_shop(redis_server.url) as frontier:
        await done(frontier, link(HOST, "/private"))
        record = robots.pack(200, robots.Verdict.RULES, FOR_SHOPPERS)
        await RobotsStore(frontier).keep(HOST, record, 60)
        own = settings(CRAWL_OUTPUT=str(tmp_path))
        found = await look_up(frontier, own, f"{HOST}/private")
    assert (found.state, "robots.txt" in found.text) == ("filtered", True)


async def test_a_seed_is_known_by_the_fingerprinter_of_the_spider(
    redis_server: RedisServer,
) -> None:
    async with crawl_of_shop(redis_server.url) as frontier:
        await push_all(frontier, [fetched_by_shop(seed(HOST, "/page?id=1"))])
        seeds = await seed_list_of(frontier.client, settings(), "docs")
        adding = await SeedAdder.begin(frontier, seeds, settings())
        await adding.add([f"{HOST}/page?id=2", f"{HOST}/other"], lambda _: True)
    assert (adding.given, adding.new) == (2, 1)
