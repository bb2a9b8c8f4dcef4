"""A scrapy-redis project that changes two settings and nothing else."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from crawlproj.operate.audit import RESOLUTION_S
from crawlproj.operate.request_log import fetch_counts, smallest_gap_s
from tests.servers import scrapy_process
from tests.servers.fleet import PROJECT, Fleet, Worker
from tests.servers.origin import RESET, Origin, Reply, Request, Route
from tests.servers.redis import RedisServer, wait_for

SETTINGS = """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
REDIS_URL = {url!r}
SCHEDULER = "crawlproj.scheduler.Scheduler"
DUPEFILTER_CLASS = "crawlproj.dupefilter.SeenFilter"
CRAWL_DATE = "of the project's own"
"""
COMMANDS = 'COMMANDS_MODULE = "crawlproj.commands"'
"""What installing the package does."""

SPIDER = """
from scrapy import FormRequest, Request
from scrapy_redis.spiders import RedisSpider


class ShopSpider(RedisSpider):
    name = "shop"

    def parse(self, response):
        here = response.urljoin
        yield Request(
            here("/item"),
            callback=self.parse_item,
            meta={"shelf": {"row": 7, "tags": ["a", "b"]}},
            cb_kwargs={"colour": "rot", "price": 2.5},
            headers={"X-Shop": "one"},
            cookies={"basket": "42"},
        )
        yield FormRequest(here("/form"), self.parse_item, formdata={"q": "grün"})
        yield Request(here("/form"), self.parse_item, method="POST", body=b"\\x00\\xff")
        yield Request(here("/gone"), callback=self.parse_item, errback=self.failed)
        yield Request(here("/gone?2"), callback=self.parse_item, errback=self.failed, meta={"n": 2})
        wanted = {"handle_httpstatus_list": [404]}
        yield Request(here("/gone?3"), callback=self.parse_item, meta=wanted)
        yield Request(here("/broken"), self.parse_item, errback=self.failed)
        yield Request(here("/moved"), self.parse_item, meta={"kept": True})
        yield Request(here("/flaky"), self.parse_item, meta={"kept": "too"})
        for _ in range(3):
            yield Request(here("/same"), self.parse_item)
        for _ in range(2):
            yield Request(here("/twice"), self.parse_item, dont_filter=True)
        yield Request(here("/poll"), self.poll, meta=response.meta)

    def parse_item(self, response, **given):
        meta = {k: v for k, v in response.meta.items() if k in ("shelf", "kept", "n")}
        if "shelf" in meta:
            given["cookie"] = response.headers["X-Cookie"].decode()
        yield {"path": response.url.split("/", 3)[3], "sent": response.text, "meta": meta, **given}

    def poll(self, response):
        if response.text == "wait":
            yield response.request.replace(dont_filter=True)
        else:
            yield {"path": "poll", "sent": response.text}

    def failed(self, failure):
        path = failure.request.url.split("/", 3)[3]
        yield {"path": path, "failed": failure.type.__name__, "n": failure.request.meta.get("n")}
"""

STOP_WHEN_IDLE = {"MAX_IDLE_TIME_BEFORE_CLOSE": 1}


class Shop:
    """The project in a folder of its own, and its workers."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def crawl(self, settings: dict[str, Any] | None = None, spider: str = "shop") -> Worker:
        number = len(self.fleet.workers)
        command = ["crawl", spider, "-O", f"out-{number}.json"]
        for name, value in (settings or {}).items():
            command += ["-s", f"{name}={value}"]
        env = {k: v for k, v in os.environ.items() if k != "REDIS_URL"}
        env["PYTHONPATH"] = str(PROJECT)
        folder = self.fleet.project
        worker = Worker(command, env, folder, folder / f"worker-{number}.log")
        self.fleet.workers.append(worker)
        return worker

    def items(self) -> list[dict[str, Any]]:
        parts = sorted(self.fleet.project.glob("out-*.json"))
        return [item for part in parts for item in json.loads(part.read_text() or "[]")]

    def status(self) -> dict[str, Any]:
        return self.fleet.status("shop")

    def stop(self) -> list[str]:
        """Stop all workers, from the folder of another project; returns why they closed."""
        Fleet(self.fleet.folder, self.fleet.redis_url).command("stop", "shop")
        return self.fleet.wait(40)


def add_spider(folder: Path, name: str, text: str) -> None:
    (folder / "shop" / "spiders" / f"{name}.py").write_text(text)


@pytest.fixture
def project(tmp_path: Path, redis_url: str) -> Path:
    spiders = tmp_path / "shop" / "spiders"
    spiders.mkdir(parents=True)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "settings.py").write_text(SETTINGS.format(url=redis_url))
    (spiders / "__init__.py").touch()
    add_spider(tmp_path, "shop", SPIDER)
    return tmp_path


@pytest.fixture
def shop(fleet: Fleet) -> Shop:
    return Shop(fleet)


def echo(request: Request) -> Reply:
    """What was sent, as text."""
    words = [request.method, request.headers.get("x-shop", "-"), request.body.hex()]
    return Reply(
        body=" ".join(words).encode(), headers={"X-Cookie": request.headers.get("cookie", "")}
    )


ROUTES: dict[str, Route] = {
    "/": Reply(),
    "/item": echo,
    "/form": echo,
    "/same": echo,
    "/twice": echo,
    "/broken": RESET,
    "/moved": Reply(status=302, headers={"Location": "/moved/here"}),
    "/moved/here": echo,
    "/flaky": lambda request: Reply(status=503) if request.attempt < 3 else echo(request),
    "/poll": lambda request: Reply(body=b"wait" if request.attempt < 7 else b"ready"),
}
PATIENT = {**STOP_WHEN_IDLE, "FRONTIER_RETRY_DELAY": 0.05, "RETRY_TIMES": 2}


def assert_settled(status: dict[str, Any], state: str = "finished") -> None:
    open_urls = [status[name] for name in ("queued", "delayed", "leased")]
    assert (status["state"], status["balance"], open_urls) == (state, 0, [0, 0, 0])


@pytest.fixture
def crawled(shop: Shop, redis_server: RedisServer) -> Iterator[tuple[Shop, Origin]]:
    """The shop's web after a crawl."""
    with Origin(ROUTES) as origin:
        redis_server.cli("lpush", "shop:start_urls", origin.url("/"))
        worker = shop.crawl(PATIENT)
        assert worker.wait(30) == "finished", worker.log[-4000:]
        yield shop, origin


def test_every_request_arrives_as_it_was_yielded(crawled: tuple[Shop, Origin]) -> None:
    shop, origin = crawled
    items = {(item["path"], item.get("sent")): item for item in shop.items()}
    form = b"q=gr%C3%BCn".hex()
    shelf = {"row": 7, "tags": ["a", "b"]}
    assert items["item", "GET one "] == {
        "path": "item",
        "sent": "GET one ",
        "meta": {"shelf": shelf},
        "colour": "rot",
        "price": 2.5,
        "cookie": "basket=42",
    }
    assert ("form", f"POST - {form}") in items
    assert ("form", "POST - 00ff") in items
    assert items["moved/here", "GET - "]["meta"] == {"kept": True}
    assert items["flaky", "GET - "]["meta"] == {"kept": "too"}
    failed = {item["path"]: item for item in shop.items() if "failed" in item}
    assert {path: item["failed"] for path, item in failed.items()} == {
        "gone": "HttpError",
        "gone?2": "HttpError",
        "broken": failed["broken"]["failed"],
    }
    assert failed["gone?2"]["n"] == 2
    fetched = fetch_counts(origin.requests())
    counts = {path: fetched[origin.url(path)] for path in ("/same", "/twice", "/flaky", "/poll")}
    assert counts == {"/same": 1, "/twice": 2, "/flaky": 3, "/poll": 7}
    assert Counter(item["path"] for item in shop.items()) == {
        **dict.fromkeys(
            ["item", "same", "gone", "gone?2", "gone?3", "broken", "moved/here", "flaky"], 1
        ),
        **dict.fromkeys(["form", "twice"], 2),
        "poll": 1,
    }
    now = shop.status()
    assert_settled(now)
    assert now["reasons"]["http_404"] == 2
    assert now["dead"] == 3
    assert now["statuses"]["404"] == 3
    # The seed, /item, two forms, /moved, /moved/here, /flaky, /same, two of /twice, seven polls,
    # and the 404 that the spider handles.
    assert now["done"] == 18
    assert now["duplicates"] == 2


def add_settings(shop: Shop, *lines: str) -> None:
    with (shop.fleet.project / "shop" / "settings.py").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


@pytest.mark.parametrize("words", [["merge"], ["report"], ["query", "shop", "SELECT 1"]])
def test_a_command_that_reads_files_says_that_no_worker_has_written_any_without_the_add_on(
    crawled: tuple[Shop, Origin], words: list[str]
) -> None:
    shop, _ = crawled
    add_settings(shop, COMMANDS)
    done = shop.fleet.command(*words, *(["shop"] if len(words) == 1 else []))
    assert done.returncode == 1
    assert "workers of this project write no files there" in done.stderr
    assert 'ADDONS = {"crawlproj.addon.Addon": 0}' in done.stderr


def test_hints_name_spiders_that_the_project_has(shop: Shop) -> None:
    add_settings(shop, COMMANDS)
    assert shop.fleet.command("crawls").stdout == "no crawl: scrapy crawl shop begins one\n"
    assert "scrapy crawl shop begins one" in shop.fleet.command("status", "shoe").stderr
    assert "scrapy crawl shop -a crawl=shoe" in shop.fleet.command("crawl", "shoe").stderr
    said = shop.fleet.command("crawl", "site").stderr
    assert '"crawlproj.spider" in SPIDER_MODULES brings site' in said


def test_commands_that_crawl_with_site_say_what_brings_it_and_then_work(shop: Shop) -> None:
    add_settings(shop, COMMANDS)
    with Origin({"/": Reply(body=b"<a href=/gone>gone</a>")}) as origin:
        check = ["linkcheck", origin.url("/"), "-s", "CRAWL_ALLOW_ADDRESSES=loopback", "--json"]
        modules = 'SPIDER_MODULES = ["crawlproj.spider", "shop.spiders"]'
        addon = 'ADDONS = {"crawlproj.addon.Addon": 0}'
        for words in (check, ["demo"]):
            done = shop.fleet.command(*words)
            assert (done.returncode, done.stdout) == (2, "")
            lacks = "needs the spider site, which this project lacks"
            assert f"{lacks}: add {modules} and {addon} to its settings" in done.stderr
            assert "in a folder that is no Scrapy project" in done.stderr
        add_settings(shop, modules)
        said = shop.fleet.command(*check).stderr
        assert f"needs the files that site writes, which this project lacks: add {addon}" in said
        add_settings(shop, addon, "CRAWL_STRICT = False")
        done = shop.fleet.command(*check)
        assert done.returncode == 1, done.stderr
        [broken] = json.loads(done.stdout)["broken"]
        assert broken["url"] == origin.url("/gone")


FAN = """
from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class FanSpider(RedisSpider):
    name = "shop"

    def parse(self, response):
        for n in range(int(response.text or 0)):
            yield Request(response.urljoin(f"/n/{n}"), self.parse_n, priority=n % 7)

    def parse_n(self, response):
        yield {"url": response.url}
        yield Request(response.urljoin("/"))
"""


def fan(count: int) -> dict[str, Route]:
    root = Reply(body=str(count).encode())
    return {"/": root, "/again": root, **{f"/n/{n}": Reply(delay_s=0.02) for n in range(count)}}


def test_two_workers_fetch_each_request_once(shop: Shop, redis_server: RedisServer) -> None:
    add_spider(shop.fleet.project, "shop", FAN)
    with Origin(fan(200)) as origin:
        for _ in range(2):
            shop.crawl({"CONCURRENT_REQUESTS": 4})
        wait_for(lambda: len(shop.status()["workers"]) == 2, "two workers", 40)
        for path in ("/", "/again"):
            redis_server.cli("lpush", "shop:start_urls", origin.url(path))
        # The seed is unfiltered, so that the link which the items have to it is one more.
        wait_for(lambda: shop.status()["done"] == 203, "every page", 40)
        assert shop.stop() == ["stopped"] * 2
        fetched = fetch_counts(origin.requests())
    assert fetched.pop(origin.url("/")) == 2
    assert fetched == {origin.url(path): 1 for path in fan(200) if path != "/"}
    assert len(shop.items()) == 200
    assert_settled(shop.status(), "stopped")


@pytest.mark.parametrize("setting", ["DOWNLOAD_DELAY", "POLITENESS_DELAY"])
def test_a_delay_lies_between_any_two_requests_of_all_workers(
    shop: Shop, redis_server: RedisServer, setting: str
) -> None:
    delay_s, pages = 0.4, 8
    add_spider(shop.fleet.project, "shop", FAN)
    with Origin({}, default=Reply(body=b"0")) as origin:
        for _ in range(2):
            shop.crawl({setting: delay_s})
        wait_for(lambda: len(shop.status()["workers"]) == 2, "two workers", 40)
        urls = [origin.url(f"/{number}") for number in range(pages)]
        redis_server.cli("rpush", "shop:start_urls", *urls)
        wait_for(lambda: shop.status()["done"] == pages, "every page", 40)
        assert shop.stop() == ["stopped"] * 2
    assert len(origin.requests()) == pages
    assert smallest_gap_s(origin.requests())[origin.host] >= delay_s - RESOLUTION_S


def test_better_priorities_are_fetched_first(shop: Shop, redis_server: RedisServer) -> None:
    add_spider(shop.fleet.project, "shop", FAN)
    with Origin(fan(30)) as origin:
        redis_server.cli("lpush", "shop:start_urls", origin.url("/"))
        one = {"CONCURRENT_REQUESTS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
        assert shop.crawl({**STOP_WHEN_IDLE, **one}).wait(30) == "finished"
        paths = [entry.path for entry in origin.requests() if entry.path.startswith("/n/")]
    ranks = [int(path.rpartition("/")[2]) % 7 for path in paths]
    assert ranks == sorted(ranks, reverse=True)


OBJECTS_IN_META = """
from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class Stopwatch:
    def process_request(self, request):
        request.meta["began"] = object()
        request.meta["seen"] = request.meta.get("seen", 0) + 1
        if request.url.endswith("/large"):
            request.meta["large"] = "x" * 300_000


class TimedSpider(RedisSpider):
    name = "shop"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {Stopwatch: 1}}

    def parse(self, response):
        for path in ("/flaky", "/large", "/moved"):
            yield Request(response.urljoin(path), self.parse_item, meta={"kept": [path]})

    def parse_item(self, response):
        meta = response.meta
        yield {"path": response.url.split("/", 3)[3], "seen": meta["seen"], "kept": meta["kept"]}
"""


def test_what_a_middleware_puts_into_meta_keeps_no_request_from_being_tried_again(
    shop: Shop, redis_server: RedisServer
) -> None:
    """Nor from being redirected: what can be stored is, and the rest comes again by itself."""
    add_spider(shop.fleet.project, "shop", OBJECTS_IN_META)
    routes = {**ROUTES, "/large": ROUTES["/flaky"]}
    with Origin(routes) as origin:
        redis_server.cli("lpush", "shop:start_urls", origin.url("/"))
        worker = shop.crawl(PATIENT)
        assert worker.wait(30) == "finished", worker.log[-4000:]
    assert sorted(shop.items(), key=lambda item: item["path"]) == [
        {"path": "flaky", "seen": 3, "kept": ["/flaky"]},
        {"path": "large", "seen": 1, "kept": ["/large"]},
        {"path": "moved/here", "seen": 2, "kept": ["/moved"]},
    ]
    now = shop.status()
    assert (now["filtered"], now["dead"]) == ({}, 0)
    assert_settled(now)


SPELLINGS = (
    *("/p?utm_source=a", "/p?utm_source=b", "/p?sid=9b1deb4d3b7d4bad9bdd2b0d7b3dcb6d", "/p"),
    *("/q?a=1&b=2", "/q?b=2&a=1", "/q?a=1&b=2#end", "/q?a=1;b=2", "/q?a=&b=2", "/q?a&b=2"),
    *("/r/", "/r", "/r/index.html", "/%7Er", "/~r", "/%7er", "/s/../r", "/R"),
)
VARIANTS = f"""
from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class VariantSpider(RedisSpider):
    name = "shop"

    def parse(self, response):
        for spelling in {SPELLINGS}:
            yield Request(response.urljoin("/") + spelling[1:], self.parse_item)
        for body in ("1", "2", "1"):
            yield Request(response.urljoin("/p"), self.parse_item, method="POST", body=body)

    def parse_item(self, response):
        pass


class ByPath:
    def fingerprint(self, request):
        return request.url.partition("?")[0].encode()
"""
SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}


def test_seeds_come_and_requests_are_the_same_as_with_scrapy_redis(
    shop: Shop, redis_server: RedisServer
) -> None:
    """Seeds from the same end of their list. What a spider asks for is fetched, whatever we would
    think of the links of a page; and a fingerprinter of the project's own has the last word."""
    add_spider(shop.fleet.project, "shop", VARIANTS)
    own = {"REQUEST_FINGERPRINTER_CLASS": "shop.spiders.shop.ByPath"}
    projects: list[dict[str, Any]] = [SCRAPY_REDIS, {}, own]
    with ExitStack() as stack:
        origins = [stack.enter_context(Origin({}, default=Reply())) for _ in projects]
        for number, origin in enumerate(origins):
            for push, paths in (("rpush", ("/", "/last")), ("lpush", ("/second", "/first"))):
                seeds = map(origin.url, paths)
                redis_server.cli("-n", str(number), push, "shop:start_urls", *seeds)
            url = redis_server.url.replace("/0", f"/{number}")
            one_by_one = {"REDIS_URL": url, "CONCURRENT_REQUESTS": 1}
            shop.crawl({**STOP_WHEN_IDLE, **one_by_one, **projects[number]})
        for worker in shop.fleet.workers:
            assert worker.wait(60) == "finished", worker.log[-4000:]
        theirs, ours, by_path = (
            sorted((one.method, one.path) for one in origin.requests()) for origin in origins
        )
    for origin in origins[:2]:
        fetched = [one.path for one in sorted(origin.requests())]
        seeds = [path for path in fetched if path in ("/", "/first", "/second", "/last")]
        assert seeds == ["/first", "/second", "/", "/last"]
    assert ours == theirs
    assert ("GET", "/p?utm_source=b") in ours
    paths = [path.partition("?")[0] for _, path in by_path]
    assert paths == sorted(set(paths)), "each once, whatever its query and method"


UNSTORABLE = """
from scrapy import Request
from scrapy_redis.spiders import RedisSpider


class OddSpider(RedisSpider):
    name = "shop"

    def parse(self, response):
        yield Request(response.urljoin("/lambda"), callback=lambda response: None)
        yield Request(response.urljoin("/object"), self.parse_item, meta={"spider": object()})
        yield Request(response.urljoin("/huge"), self.parse_item, meta={"blob": "x" * 300_000})
        yield Request(response.urljoin("/fine"), self.parse_item)

    def parse_item(self, response):
        yield {"url": response.url}
"""


def test_a_request_that_cannot_be_stored_is_refused_with_a_reason_and_its_siblings_go_on(
    shop: Shop, redis_server: RedisServer
) -> None:
    add_spider(shop.fleet.project, "shop", UNSTORABLE)
    with Origin({"/": Reply(), "/fine": Reply()}) as origin:
        redis_server.cli("lpush", "shop:start_urls", origin.url("/"))
        worker = shop.crawl(STOP_WHEN_IDLE)
        assert worker.wait(30) == "finished"
        assert {entry.path for entry in origin.requests()} == {"/", "/fine"}
        assert shop.items() == [{"url": origin.url("/fine")}]
    errors = [line for line in worker.log.splitlines() if "] ERROR:" in line]
    assert len(errors) == 3
    assert "/lambda" in errors[0] and "must be methods of the spider" in errors[0]
    assert "'spider' in meta" in errors[1] and "object cannot be stored" in errors[1]
    assert "/huge" in errors[2] and "FRONTIER_MAX_RECORD_BYTES" in errors[2]
    assert "Traceback" not in worker.log
    now = shop.status()
    assert now["filtered"] == {"unstorable": 3}
    assert_settled(now)


def test_a_spider_waits_for_more_seeds_until_it_is_told_to_stop(
    shop: Shop, redis_server: RedisServer
) -> None:
    with Origin({}) as origin:
        worker = shop.crawl()
        redis_server.cli("lpush", "shop:start_urls", origin.url("/1"))
        wait_for(lambda: shop.status()["dead"] == 1, "the first is settled", 20)
        redis_server.cli("lpush", "shop:start_urls", origin.url("/2"))
        wait_for(lambda: shop.status()["dead"] == 2, "the second is settled", 20)
        assert worker.is_running
        assert shop.status()["state"] == "running"
        worker.process.terminate()
        assert worker.wait(20) == "shutdown"


def test_the_same_seed_is_fetched_as_often_as_it_is_pushed(
    shop: Shop, redis_server: RedisServer
) -> None:
    # scrapy-redis's spiders ask for their seeds unfiltered: pushing one again refreshes it.
    add_spider(shop.fleet.project, "shop", FAN)
    with Origin({}, default=Reply()) as origin:
        for _ in range(2):
            shop.crawl()
        wait_for(lambda: len(shop.status()["workers"]) == 2, "two workers", 40)
        seeds = [origin.url("/1")] * 3 + [origin.url("/2")]
        redis_server.cli("rpush", "shop:start_urls", *seeds)
        wait_for(lambda: len(origin.requests()) == 4, "every page", 40)
        assert shop.stop() == ["stopped"] * 2
        assert fetch_counts(origin.requests()) == {origin.url("/1"): 3, origin.url("/2"): 1}


def test_a_spider_that_never_gets_a_seed_closes_after_its_idle_time(shop: Shop) -> None:
    worker = shop.crawl(STOP_WHEN_IDLE)
    assert worker.wait(20) == "finished"
    assert "Left alone as settings of others: CRAWL_DATE" in worker.log


@pytest.mark.parametrize(
    ("push", "setting"),
    [
        (["sadd", "shop:start_urls"], {"REDIS_START_URLS_AS_SET": "True"}),
        (["zadd", "shop:start_urls", "1"], {"REDIS_START_URLS_AS_ZSET": "True"}),
        (["lpush", "elsewhere:shop"], {"REDIS_START_URLS_KEY": "elsewhere:%(name)s"}),
    ],
)
def test_seeds_come_in_every_form_that_scrapy_redis_knows(
    shop: Shop, redis_server: RedisServer, redis: Redis, push: list[str], setting: dict[str, str]
) -> None:
    with Origin({}) as origin:
        plain, posted = origin.url("/plain"), origin.url("/json")
        redis_server.cli(*push, plain)
        redis_server.cli(*push, json.dumps({"url": posted, "method": "POST", "a": "b"}))
        redis_server.cli(*push, '{"no": "url"}')
        assert shop.crawl({**STOP_WHEN_IDLE, **setting}).wait(30) == "finished"
        methods = {entry.path: entry.method for entry in origin.requests()}
    assert methods == {"/plain": "GET", "/json": "POST"}
    assert redis.exists(push[1]) == 0
    [rejected] = redis.lrange(f"{push[1]}:rejected", 0, -1)
    assert json.loads(rejected)["seed"] == '{"no": "url"}'


OWN_KEY = """
from scrapy_redis.spiders import RedisSpider


class OwnKeySpider(RedisSpider):
    name = "shop"
    redis_key = "queue:%(name)s"
    custom_settings = {"REDIS_START_URLS_AS_SET": True}

    def parse(self, response):
        yield {"url": response.url}
"""


def test_the_seed_command_goes_by_what_the_spider_itself_says(
    shop: Shop, redis_server: RedisServer, redis: Redis
) -> None:
    add_spider(shop.fleet.project, "shop", OWN_KEY)
    settings = SETTINGS.format(url=redis_server.url) + 'COMMANDS_MODULE = "crawlproj.commands"\n'
    (shop.fleet.project / "shop" / "settings.py").write_text(settings)
    with Origin({}, default=Reply()) as origin:
        added = shop.fleet.command("seed", "shop", origin.url("/"))
        assert added.stdout == "1 new, 0 known already, 0 refused\n", added.stderr
        assert redis.smembers("queue:shop") == {origin.url("/").encode()}
        assert shop.crawl(STOP_WHEN_IDLE).wait(30) == "finished"
        assert shop.items() == [{"url": origin.url("/")}]


def test_no_start_and_no_exit_of_a_worker_wipes_what_is_shared(
    shop: Shop, redis_server: RedisServer
) -> None:
    add_spider(shop.fleet.project, "shop", FAN)
    slow = {"DOWNLOAD_DELAY": 0.05, "CONCURRENT_REQUESTS_PER_DOMAIN": 1, **STOP_WHEN_IDLE}
    with Origin(fan(40)) as origin:
        redis_server.cli("lpush", "shop:start_urls", origin.url("/"))
        first = shop.crawl({**slow, "SCHEDULER_PERSIST": "False"})
        wait_for(lambda: shop.status()["done"] > 3, "some pages", 40)
        fifo = "scrapy_redis.queue.FifoQueue"
        old = {"SCHEDULER_FLUSH_ON_START": "True", "SCHEDULER_QUEUE_CLASS": fifo}
        second = shop.crawl({**slow, **old})
        wait_for(lambda: len(shop.status()["workers"]) == 2, "two workers", 40)
        first.process.terminate()
        assert first.wait(20) == "shutdown"
        assert second.wait(30) == "finished"
        fetched = fetch_counts(origin.requests())
    assert {url: fetched[url] for url in fetched if "/n/" in url} == {
        origin.url(f"/n/{n}"): 1 for n in range(40)
    }
    assert_settled(shop.status())
    assert "SCHEDULER_FLUSH_ON_START is not heeded" in second.log
    assert "SCHEDULER_QUEUE_CLASS=scrapy_redis.queue.FifoQueue is not heeded" in second.log


TAKES_ITS_TIME = """
import asyncio
import os
from pathlib import Path

from scrapy import Request, Spider


async def until_there(name):
    while not Path(name).exists():
        await asyncio.sleep(0.05)


class ShopSpider(Spider):
    name = "shop"
    base = {base!r}

    async def start(self):
        yield Request(self.base + "/one")
        if self.settings.getbool("LATE"):
            await until_there("go")
            yield Request(self.base + "/two")

    async def parse(self, response):
        if response.url.endswith("/two"):
            again = response.request.replace(url=self.base + "/api")
            answer = await self.crawler.engine.download_async(again)
            self.logger.info("The callback has its answer: %s", answer.text)
            await until_there("go on")
            yield Request(self.base + "/child")
        yield {{"url": response.url}}
"""


def test_a_spider_may_take_its_time_to_start_and_in_its_callbacks(shop: Shop) -> None:
    """Another worker ends the crawl while it does; and what a callback downloads by itself, with
    the meta of its page, does not end the page."""
    pages = {path: Reply() for path in ("/one", "/two", "/child")}
    with Origin({**pages, "/api": Reply(body=b"42")}) as origin:
        add_spider(shop.fleet.project, "shop", TAKES_ITS_TIME.format(base=origin.url("")))
        late = shop.crawl({"LATE": "True"})
        wait_for(lambda: shop.status()["done"] == 1, "the first page", 40)
        assert shop.crawl().wait(30) == "finished"
        (shop.fleet.project / "go").touch()
        late.wait_for_log("The callback has its answer: 42")
        now = shop.status()
        assert (now["state"], now["done"], now["leased"]) == ("running", 1, 1)
        (shop.fleet.project / "go on").touch()
        assert late.wait(30) == "finished"
        assert sorted(entry.path for entry in origin.requests()) == sorted([*pages, "/api"])
    now = shop.status()
    assert now["done"] == 3
    assert_settled(now)
    assert sorted(item["url"] for item in shop.items()) == sorted(map(origin.url, pages))


STAGES = """
from pathlib import Path

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy_redis.spiders import RedisSpider


class StagesSpider(RedisSpider):
    name = "shop"
    stage = 0

    def parse(self, response):
        yield {"path": response.url.split("/", 3)[3]}
        self.base = response.urljoin("/")

    def spider_idle(self):
        if not hasattr(self, "base"):
            return super().spider_idle()
        self.stage += 1
        if self.stage > 3:
            raise CloseSpider("all stages done")
        for path in ("known", f"stage{self.stage}"):
            self.crawler.engine.crawl(Request(self.base + path))
        if self.stage > 1:
            raise DontCloseSpider


class PatientSpider(Spider):
    name = "patient"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        if crawler.settings.getbool("PATIENT"):
            crawler.signals.connect(spider.wait, signals.spider_idle)
        return spider

    async def start(self):
        yield Request(self.settings["BASE"])

    def parse(self, response):
        yield {"path": response.url.split("/", 3)[3]}

    def wait(self):
        if not Path("go").exists():
            self.logger.info("Still waiting")
            raise DontCloseSpider
        self.crawler.engine.crawl(Request(self.settings["BASE"] + "late"))
"""


def test_an_idle_spider_is_told_and_what_it_adds_goes_on_with_the_crawl(
    shop: Shop, redis_server: RedisServer
) -> None:
    """As with scrapy-redis: it may feed another stage, stay open, and say why it closes."""
    add_spider(shop.fleet.project, "shop", STAGES)
    with Origin({}, default=Reply()) as origin:
        for number, project in enumerate((SCRAPY_REDIS, {})):
            redis_server.cli("-n", str(number), "lpush", "shop:start_urls", origin.url("/"))
            shop.crawl({"REDIS_URL": redis_server.url.replace("/0", f"/{number}"), **project})
        for worker in shop.fleet.workers:
            assert worker.wait(60) == "all stages done", worker.log[-4000:]
    theirs, ours = (
        sorted(item["path"] for item in json.loads(part.read_text()))
        for part in sorted(shop.fleet.project.glob("out-*.json"))
    )
    assert ours == theirs == ["", "known", "stage1", "stage2", "stage3"]


def test_a_spider_that_is_kept_open_goes_on_with_a_crawl_that_others_have_ended(
    shop: Shop,
) -> None:
    add_spider(shop.fleet.project, "shop", STAGES)
    with Origin({}, default=Reply()) as origin:
        base = {"BASE": origin.url("/")}
        patient = shop.crawl({**base, "PATIENT": "True"}, "patient")
        patient.wait_for_log("Still waiting")
        assert shop.crawl(base, "patient").wait(30) == "finished"
        assert shop.fleet.status("patient")["state"] == "finished"
        (shop.fleet.project / "go").touch()
        assert patient.wait(30) == "finished", patient.log[-4000:]
    assert "Opening the crawl again: 1 URL came as it ended" in patient.log
    assert sorted(item["path"] for item in shop.items()) == ["", "late"]
    assert_settled(shop.fleet.status("patient"))


def test_without_a_redis_the_log_says_so_in_one_line(shop: Shop) -> None:
    worker = shop.crawl({"REDIS_URL": "redis://127.0.0.1:1/0"})
    assert worker.wait(20) == "could not start"
    assert "No Redis answers at 127.0.0.1:1" in worker.log
    assert "Traceback" not in worker.log


def test_scrapys_own_commands_still_work_there(shop: Shop) -> None:
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    listed = scrapy_process.run(["list"], env, shop.fleet.project)
    assert (listed.returncode, listed.stdout) == (0, "shop\n")
