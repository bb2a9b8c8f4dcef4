"""A plain spider beside `site`, with Scrapy's own middlewares: what it keeps to all the same."""

from __future__ import annotations

import csv
import json
import os
import threading
from pathlib import Path

import pytest
from redis import Redis

from crawlproj.config import Config
from crawlproj.config.environment import PLAIN_SCRAPY
from crawlproj.frontier import keys
from crawlproj.operate.audit import RESOLUTION_S
from crawlproj.operate.request_log import fetch_counts, smallest_gap_s
from tests.servers import scrapy_process
from tests.servers.fleet import PROJECT, Fleet, Worker
from tests.servers.origin import HANG, Origin, Raw, Reply, Route
from tests.servers.origin import Request as OriginRequest
from tests.servers.redis import PATIENCE, wait_for

SPIDER = """
from dataclasses import dataclass

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy_redis.spiders import RedisSpider


class Prices:
    def process_item(self, item):
        item["price"] += 1
        return item


class Onlooker:
    async def open_spider(self, spider):
        self.is_open = True

    def process_item(self, item, spider):
        assert self.is_open
        spider.logger.info("The onlooker sees a %s", type(item).__name__)
        return item

from crawlproj import spider
from crawlproj.discover.seeds import SeedList
from crawlproj.scheduler import Scheduler


class OwnScheduler(Scheduler):
    pass


@dataclass
class Product:
    url: str
    name: str


class PlainSpider(Spider):
    name = "plain"

    async def start(self):
        yield Request(self.first, dont_filter=True)  # as Scrapy's own start() does

    async def parse(self, response):
        self.logger.info("Downloader of %s", type(self.crawler.engine.downloader).__module__)
        if response.body == b"try again":
            yield get_retry_request(response.request, spider=self, reason="it says so")
        if hasattr(self, "beside"):
            yield Request(self.beside, meta=response.meta)
        if hasattr(self, "length"):
            yield Request(response.urljoin("/" + "x" * int(self.length)))
        for path in getattr(self, "follow", "").split():
            yield Request(response.urljoin(path), self.parse_leaf)
        for number in range(int(getattr(self, "inline", 0))):
            await self.crawler.engine.download_async(Request(response.urljoin(f"/i{number}")))

    def parse_leaf(self, response):
        if hasattr(self, "price"):
            yield {"price": int(self.price), "url": response.url}
        if hasattr(self, "product"):
            yield Product(response.url, self.product)


class FedSpider(RedisSpider):
    name = "fed"
    max_idle_time = 1

    def parse(self, response):
        yield Request(self.beside)


class Headlines(spider.SiteSpider):
    name = "headlines"
    handle_httpstatus_list = [410]  # redirects, which it does not name, are followed all the same

    def page(self, response, page):
        if page.url.endswith("/astray"):
            yield Request(response.urljoin("/nowhere"))
        yield {"url": page.url, "title": page.title, "headline": response.css("h1::text").get()}


class ApiSpider(Spider):
    name = "api"

    async def start(self):
        yield Request(self.first)

    def parse(self, response):
        yield {"size": len(response.body)}


class Catalogue(spider.SiteSpider):
    name = "catalogue"

    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/"):
            yield Request(response.urljoin("/api"), self.parse_api)

    def parse_api(self, response):
        yield response.json()


class Shelves(spider.SiteSpider):
    name = "shelves"

    def make_request_from_data(self, data):
        if data == b"bug":
            SeedList.remove = None  # as a mistake in our own code would break it
        return Request(self.settings["SHOP"] + str(0 if data == b"bug" else int(data)))
"""


@pytest.fixture(autouse=True)
def spiders(tmp_path: Path) -> None:
    (tmp_path / "plain_spiders.py").write_text(SPIDER)


def crawl(fleet: Fleet, settings: dict[str, str], **args: str) -> Worker:
    """Run the spider to its end."""
    worker = start(fleet, settings, **args)
    assert worker.wait(30) == "finished", worker.log[-4000:]
    return worker


def start(fleet: Fleet, settings: dict[str, str], **args: str) -> Worker:
    return fleet.start({**HERE, **settings}, spider="plain", env=own_env(fleet), **args)


def own_env(fleet: Fleet) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(map(str, (PROJECT, fleet.folder)))}


HERE = {"SPIDER_MODULES": "plain_spiders", "CRAWL_ALLOW_ADDRESSES": "loopback"}


OWN = {"SCHEDULER": "plain_spiders.OwnScheduler"}
"""A scheduler derived from ours keeps the pace, and is checked before it starts, as ours is."""


@pytest.mark.also_plain
def test_a_redirect_that_scrapy_follows_keeps_the_pause_its_host_asks_for(fleet: Fleet) -> None:
    delay_s = 2
    routes: dict[str, Route] = {
        "/robots.txt": Reply(body=f"User-agent: *\nCrawl-delay: {delay_s}".encode()),
        "/a": Reply(302, {"Location": "/b"}),
        "/b": Reply(),
    }
    with Origin(routes) as origin:
        crawl(fleet, OWN, first=origin.url("/a"))
    requests = sorted(origin.requests())
    assert [request.path for request in requests] == ["/robots.txt", "/a", "/b"]
    assert smallest_gap_s(requests)[origin.host] >= delay_s - RESOLUTION_S


def test_neither_a_redirect_nor_a_link_with_the_meta_of_a_seed_opens_an_address(
    fleet: Fleet,
) -> None:
    own = {"ROBOTSTXT_OBEY": "False", "CRAWL_ALLOW_ADDRESSES": ""}
    with Origin({}, default=Reply(), address="127.0.99.99") as beside:
        routes: dict[str, Route] = {
            "/": Reply(),
            "/go": Reply(302, {"Location": beside.url("/redirected")}),
        }
        with Origin(routes) as origin:
            crawl(fleet, own, first=origin.url("/"), beside=beside.url("/link"))
            crawl(fleet, own, first=origin.url("/go"), crawl="other")
    assert {entry.path for entry in origin.requests()} == {"/", "/go"}
    assert beside.requests() == []


def test_a_seed_of_a_spider_of_scrapy_redis_opens_its_own_address_too(
    fleet: Fleet, redis: Redis
) -> None:
    own = {**HERE, "ROBOTSTXT_OBEY": "False", "CRAWL_ALLOW_ADDRESSES": ""}
    with Origin({}, default=Reply(), address="127.0.99.99") as beside, Origin({}) as origin:
        redis.lpush("fed:start_urls", origin.url("/"))
        args = {"beside": beside.url("/")}
        worker = fleet.start(own, spider="fed", env=own_env(fleet), **args)
        assert worker.wait(30) == "finished", worker.log[-4000:]
    assert [entry.path for entry in origin.requests()] == ["/"]
    assert beside.requests() == []


def test_a_seed_that_its_callback_asks_for_once_more_is_fetched_once_more(fleet: Fleet) -> None:
    def first_not(request: OriginRequest) -> Reply:
        return Reply(body=b"try again" if request.attempt == 1 else b"")

    with Origin({"/": first_not}) as origin:
        crawl(fleet, {"ROBOTSTXT_OBEY": "False"}, first=origin.url("/"))
    assert fetch_counts(origin.requests()) == {origin.url("/"): 2}


def test_a_seed_that_leads_back_to_itself_with_a_cookie_is_fetched(fleet: Fleet) -> None:
    def home(request: OriginRequest) -> Reply:
        return Reply() if "cookie" in request.headers else Reply(302, {"Location": "/set"})

    given = Reply(302, {"Location": "/", "Set-Cookie": "seen=1"})
    with Origin({"/": home, "/set": given, "/a": Reply()}) as origin:
        own = {"ROBOTSTXT_OBEY": "False", "COOKIES_ENABLED": "True"}
        crawl(fleet, own, first=origin.url("/"), follow="/a")
    assert [entry.path for entry in sorted(origin.requests())] == ["/", "/set", "/", "/a"]


def test_what_is_wrong_is_said_before_a_scheduler_derived_from_ours_starts(fleet: Fleet) -> None:
    worker = start(fleet, {**OWN, "CRAWL_PAGES": "many"})
    assert worker.process.wait(60) == 2
    assert worker.log.startswith("CRAWL_PAGES=many: give a whole number")


def test_requests_past_the_frontier_are_warned_of_once(fleet: Fleet) -> None:
    with Origin({}, default=Reply()) as origin:
        worker = crawl(fleet, {"ROBOTSTXT_OBEY": "False"}, first=origin.url("/"), inline="3")
    assert len(origin.requests()) == 4
    [warning] = [line for line in worker.log.splitlines() if "docs/politeness.md" in line]
    assert "WARNING" in warning and origin.url("/i0") in warning


def test_requests_from_the_frontier_are_not_warned_of(fleet: Fleet) -> None:
    with Origin({"/": Reply()}) as origin:
        worker = crawl(fleet, {}, first=origin.url("/"))
    assert len(origin.requests()) == 2
    assert "docs/politeness.md" not in worker.log


def test_a_request_too_long_to_be_made_is_counted_and_not_stored_whole(
    fleet: Fleet, redis: Redis
) -> None:
    with Origin({"/": Reply()}) as origin:
        own = {"URLLENGTH_LIMIT": "0", "SEEN_AUDIT_ONE_IN": "1", "ROBOTSTXT_OBEY": "False"}
        crawl(fleet, own, first=origin.url("/"), length="100000")
    assert fleet.status("plain")["filtered"] == {"length": 1}
    refused = [key for key in redis.smembers(keys.audit("plain", 0)) if b"xxx" in key]
    assert [key.startswith(b"length http://") and len(key) < 300 for key in refused] == [True]


@pytest.mark.also_plain
def test_what_becomes_of_the_pages_of_a_plain_spider_is_told_as_it_was(fleet: Fleet) -> None:
    rounds: dict[str, Route] = {
        f"/round?{n}": Reply(302, {"Location": f"/round?{n + 1}"}) for n in range(9)
    }
    routes: dict[str, Route] = {
        "/": Reply(),
        "/old": Reply(301, {"Location": "/new"}),
        "/new": Reply(),
        "/broken": Reply(500),
        **rounds,
    }
    with Origin(routes) as origin:
        own = {"ROBOTSTXT_OBEY": "False", "POLITENESS_BACKOFF": "0", "REDIRECT_MAX_TIMES": "5"}
        follow = "/old /broken /gone /round?0"
        worker = crawl(fleet, own, first=origin.url("/"), follow=follow)
    asked = fetch_counts(origin.requests())
    assert asked[origin.url("/broken")] == Config().max_attempts
    failures = {row["url"]: row for row in fleet.rows("failures", "plain")}
    assert {url: (row["reason"], row["referer"]) for url, row in failures.items()} == {
        origin.url("/broken"): ("http_500", origin.url("/")),
        origin.url("/gone"): ("http_404", origin.url("/")),
        origin.url("/round?5"): ("redirect_loop", failures[origin.url("/round?5")]["referer"]),
    }
    assert failures[origin.url("/broken")]["attempts"] == str(Config().max_attempts)
    statuses = fleet.status("plain")["statuses"]
    assert (statuses["200"], statuses["301"], statuses["302"]) == (2, 1, 6)
    assert "Traceback" not in worker.log


def test_fewer_retries_are_made_where_scrapys_own_setting_says_so(fleet: Fleet) -> None:
    with Origin({"/": Reply(500)}) as origin:
        own = {"ROBOTSTXT_OBEY": "False", "POLITENESS_BACKOFF": "0", "RETRY_TIMES": "1"}
        crawl(fleet, own, first=origin.url("/"))
    assert fetch_counts(origin.requests()) == {origin.url("/"): 2}


def test_pipelines_of_a_project_see_what_its_spiders_yield_and_reports_only_if_they_ask(
    fleet: Fleet, redis: Redis
) -> None:
    stored, asks = "scrapy_redis.pipelines.RedisPipeline", "plain_spiders.Onlooker"
    own = {
        "ROBOTSTXT_OBEY": "False",
        "ITEM_PIPELINES": json.dumps({"plain_spiders.Prices": 1, stored: 2, asks: 3}),
        "CRAWL_REPORT_PIPELINES": asks,
        "CRAWL_STATS_INTERVAL": "0.1",
    }
    slow = Reply(delay_s=0.5)
    with Origin({"/": Reply(), "/a": slow, "/b": slow}) as origin:
        worker = crawl(fleet, own, first=origin.url("/"), follow="/a /b /gone", price="6")
    assert "Traceback" not in worker.log
    items = [json.loads(packed) for packed in redis.lrange("plain:items", 0, -1)]
    assert sorted(items, key=lambda item: item["url"]) == [
        {"price": 7, "url": origin.url("/a")},
        {"price": 7, "url": origin.url("/b")},
    ]
    assert [row["url"] for row in fleet.rows("failures", "plain")] == [origin.url("/gone")]
    assert fleet.rows("stats", "plain")
    seen = {line.rpartition(" ")[2] for line in worker.log.splitlines() if "onlooker" in line}
    assert seen == {"dict", "FailureItem", "StatsItem"}


def test_what_a_worker_hears_of_lost_ones_when_it_joins_passes_open_pipelines_into_open_feeds(
    fleet: Fleet, redis: Redis
) -> None:
    asks = "plain_spiders.Onlooker"
    own = {
        "ROBOTSTXT_OBEY": "False",
        "ITEM_PIPELINES": json.dumps({asks: 1}),
        "CRAWL_REPORT_PIPELINES": asks,
        "FRONTIER_MAX_ATTEMPTS": "1",
        "FRONTIER_LEASE_TIMEOUT": "1",
    }
    asked = threading.Event()

    def hang(request: OriginRequest) -> Raw:
        asked.set()
        return HANG

    with Origin({"/": hang}) as origin:
        lost = start(fleet, own, first=origin.url("/"))
        assert asked.wait(30 * PATIENCE), lost.log
        lost.kill()
        silent_at = max(
            score for _, score in redis.zrange(keys.workers("plain", 0), 0, -1, withscores=True)
        )
        wait_for(lambda: redis.time()[0] * 1000 > silent_at, "silence", 30)
        worker = crawl(fleet, own, first=origin.url("/"))
    assert "Traceback" not in worker.log and "The onlooker sees a FailureItem" in worker.log
    [row] = fleet.rows("failures", "plain")
    assert (row["url"], row["reason"]) == (origin.url("/"), "worker_lost")


def test_a_site_spider_yields_items_of_the_users_own_beside_its_rows_and_follows_links(
    fleet: Fleet,
) -> None:
    """Redirects, failures and what is left out are no pages of theirs; Requests are refused. A
    status that the spider asks for is no failure, not even one by which a page says it is gone."""
    out = b'<meta name=robots content="noindex">'
    routes: dict[str, Route] = {
        "/": Reply(body=b"<title>Home</title><h1>One</h1><a href=/go><a href=/out><a href=/gone>"),
        "/go": Reply(302, {"Location": "/two"}),
        "/two": Reply(body=b"<h1>Two</h1><a href=/astray><a href=/sold>"),
        "/sold": Reply(410, body=b"<h1>Sold</h1><a href=/like>"),
        "/like": Reply(body=b"<h1>Like</h1>"),
        "/out": Reply(body=out + b"<h1>Out</h1>"),
        "/astray": Reply(body=b"<h1>Astray</h1>"),
    }
    own = {**HERE, "ROBOTSTXT_OBEY": "False", "CRAWL_NOINDEX": "True"}
    with Origin(routes) as origin:
        seeds = origin.url("/")
        worker = fleet.start(own, "headlines", own_env(fleet), seeds=seeds)
        assert worker.wait(30) == "finished", worker.log[-4000:]
    parts = (fleet.output / "headlines").glob("items-*.jsonl")
    items = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    assert sorted(items, key=lambda item: str(item["headline"])) == [
        {"url": origin.url("/like"), "title": "", "headline": "Like"},
        {"url": origin.url("/"), "title": "Home", "headline": "One"},
        {"url": origin.url("/sold"), "title": "", "headline": "Sold"},
        {"url": origin.url("/two"), "title": "", "headline": "Two"},
    ]
    pages = {row["url"] for row in fleet.rows("pages", "headlines")}
    found = ("/", "/go", "/two", "/astray", "/sold", "/like")
    assert pages == {origin.url(path) for path in found}
    failures = {row["url"]: row["reason"] for row in fleet.rows("failures", "headlines")}
    assert failures == {
        origin.url("/astray"): "callback_TypeError",
        origin.url("/gone"): "http_404",
    }
    assert "override parse()" in worker.log


def start_shelves(fleet: Fleet, origin: Origin) -> Worker:
    """A worker of a spider whose seeds are numbers, which waits for the first."""
    own = {**HERE, "ROBOTSTXT_OBEY": "False", "SHOP": origin.url("/")}
    worker = fleet.start(own, "shelves", own_env(fleet))
    worker.wait_for_log("waits for seeds")
    return worker


def test_a_worker_that_waits_leaves_it_to_the_spider_which_seeds_can_be_used(
    fleet: Fleet, redis: Redis
) -> None:
    bad = "x\n\x1b[2J"
    with Origin({}, default=Reply()) as origin:
        worker = start_shelves(fleet, origin)
        redis.rpush("shelves:start_urls", bad, "7", "8")
        assert worker.wait(30) == "finished", worker.log[-4000:]
    assert sorted(entry.path for entry in origin.requests()) == ["/7", "/8"]
    [rejected] = redis.lrange("shelves:start_urls:rejected", 0, -1)
    assert json.loads(rejected)["seed"] == bad
    assert r"Seed refused: x\n\x1b[2J: invalid literal" in worker.log


def test_a_worker_whose_intake_of_seeds_breaks_stops_and_says_why(
    fleet: Fleet, redis: Redis
) -> None:
    with Origin({}, default=Reply()) as origin:
        worker = start_shelves(fleet, origin)
        redis.rpush("shelves:start_urls", "bug")
        assert worker.wait(30) == "failed", worker.log[-4000:]
    assert "This worker stops: 'NoneType' object is not callable" in worker.log


JSON = Reply(headers={"Content-Type": "application/json"}, body=b'{"from": "json"}')


def items_of(fleet: Fleet, crawl: str) -> list[dict[str, object]]:
    parts = (fleet.output / crawl).glob("items-*.jsonl")
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


@pytest.mark.parametrize(("wanted", "size"), [("", len(JSON.body)), ("text/*", 0)])
def test_a_spider_is_given_json_unless_the_user_names_the_types_to_read(
    fleet: Fleet, wanted: str, size: int
) -> None:
    own = {**HERE, **({"CRAWL_CONTENT_TYPES": wanted} if wanted else {})}
    with Origin({"/api": JSON}) as origin:
        worker = fleet.start(own, spider="api", env=own_env(fleet), first=origin.url("/api"))
        assert worker.wait(30) == "finished", worker.log[-4000:]
    assert items_of(fleet, "api") == [{"size": size}]


def test_a_callback_of_ones_own_beside_those_of_site_is_given_json(fleet: Fleet) -> None:
    routes: dict[str, Route] = {
        "/": Reply(body=b"<a href=/other.json>other</a>"),
        "/api": JSON,
        "/other.json": JSON,
    }
    with Origin(routes) as origin:
        args = {"seeds": origin.url("/")}
        worker = fleet.start(HERE, spider="catalogue", env=own_env(fleet), **args)
        assert worker.wait(30) == "finished", worker.log[-4000:]
        pages = {row["url"]: row["content_hash"] for row in fleet.rows("pages", "catalogue")}
    assert items_of(fleet, "catalogue") == [{"from": "json"}]
    assert pages[origin.url("/other.json")] == ""


def command(fleet: Fleet, *words: str) -> str:
    """What a command prints that ends well."""
    settings = {**HERE, "ROBOTSTXT_OBEY": "False", "CRAWL_OUTPUT": str(fleet.output)}
    given = [word for pair in settings.items() for word in ("-s", "=".join(pair))]
    env = {**fleet.env, **own_env(fleet), "SCRAPY_SETTINGS_MODULE": "settings.base"}
    done = scrapy_process.run([*words, *given], env, fleet.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.also_plain
def test_items_of_a_plain_spider_are_written_gathered_counted_and_merged(fleet: Fleet) -> None:
    paths = [f"/{number}" for number in range(12)]
    pages: dict[str, Route] = {path: Reply(delay_s=0.1) for path in paths}
    files = ["-O", "all.json", "-O", "all.csv"]
    arguments = {"follow": " ".join(paths), "price": "6", "product": "=1+1"}
    with Origin({"/": Reply(), **pages}) as origin:
        given = [word for pair in arguments.items() for word in ("-a", "=".join(pair))]
        first = f"first={origin.url('/')}"
        said = command(fleet, "fleet", "plain", "-n", "2", "-a", first, *given, *files)
        urls = sorted(map(origin.url, paths))
    assert "24 items in" in said and "Product" in said
    ours = json.loads((fleet.folder / "all.json").read_text())
    assert sorted(item["url"] for item in ours) == sorted([*urls, *urls])
    assert {item.get("name") for item in ours} == {"=1+1", None}
    with (fleet.folder / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["price"] for row in rows} == {"6", ""}
    assert {row["name"] for row in rows} == {"'=1+1", ""}
    assert list(fleet.folder.glob(".all*")) == []
    summary = json.loads((fleet.output / "plain" / "summary.json").read_text())
    assert summary["items"] == {"Product": 12, "dict": 12}
    for part in (fleet.output / "plain").glob("items-*.jsonl"):
        items, leases = (
            one.read_bytes().splitlines() for one in (part, part.with_suffix(".leases"))
        )
        assert len(items) == len(leases)
        assert all(int(line.split()[0]) > 0 for line in leases)
    assert "items.jsonl" in command(fleet, "merge", "plain")
    lines = (fleet.output / "plain" / "items.jsonl").read_text().splitlines()
    assert sorted(map(str, map(json.loads, lines))) == sorted(map(str, ours))


WITHOUT_A_NAME = """
import scrapy.core.downloader.middleware
import scrapy.core.spidermw
import scrapy.exceptions

del scrapy.exceptions._InvalidOutput
"""


@pytest.mark.needs_ours
@pytest.mark.parametrize("why", ["", "CRAWL_PLAIN_SCRAPY is set", "has no scrapy.exceptions."])
def test_a_crawl_goes_with_scrapys_own_parts_as_with_ours(fleet: Fleet, why: str) -> None:
    """They are used where that is asked for, or where the Scrapy lacks a name that ours rely on."""
    if why.startswith("has no"):
        (fleet.folder / "sitecustomize.py").write_text(WITHOUT_A_NAME)
    with Origin({}, default=Reply()) as origin:
        env = {**own_env(fleet), **({PLAIN_SCRAPY: "1"} if PLAIN_SCRAPY in why else {})}
        args = {"first": origin.url("/"), "length": "5"}
        worker = fleet.start(HERE, spider="plain", env=env, **args)
        assert worker.wait(30) == "finished", worker.log[-4000:]
    assert {entry.path for entry in origin.requests()} == {"/robots.txt", "/", "/xxxxx"}
    module = "scrapy.core.downloader" if why else "crawlproj.engine.downloader"
    assert f"Downloader of {module}\n" in worker.log
    told = [line for line in worker.log.splitlines() if "Scrapy's own parts are used" in line]
    assert [why in line for line in told] == [True] * bool(why)
    now = fleet.status("plain")
    assert (now["state"], now["dead"], now["balance"]) == ("finished", 0, 0)
