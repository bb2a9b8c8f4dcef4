"""Bad rows and bad records in one crawl: what pages say of themselves, and what lies in Redis.

While the crawl is paused, with everything queued, somebody writes into its queues. Then it goes on:
what cannot be read is set aside with a reason, and every page beside it is fetched and has its row.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

import msgpack
import pytest
from redis import Redis

from crawlproj.frontier import keys
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.records import FORMAT
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request
from tests.servers.redis import RedisServer, wait_for

TITLES = {
    # What a spreadsheet would run
    "equals": ("=1+1", "'=1+1"),
    "plus": ("+1", "'+1"),
    "minus": ("-1", "'-1"),
    "at": ("@SUM(A1)", "'@SUM(A1)"),
    "hyperlink": ('=HYPERLINK("http://evil")', '\'=HYPERLINK("http://evil")'),
    "tab first": ("\t=1+1", "'=1+1"),
    "carriage return first": ("\r=1+1", "'=1+1"),
    "no-break space first": ("\u00a0=1+1", "'=1+1"),
    "full-width": ("＝1+1", "'＝1+1"),
    "zero-width first": ("\u200b=1+1", "\u200b=1+1"),
    # What breaks a row
    "newline": ("a\nb", "a b"),
    "quotes": ('"a", "b"', '"a", "b"'),
    "one quote": ('a"b', 'a"b'),
    "commas": ("a,b,,", "a,b,,"),
    "U+2028": ("a\u2028b\u2029c", "a\u2028b\u2029c"),
    "next line": ("a\u0085b", "a b"),
    "semicolons and pipes": ("a;b|c\\", "a;b|c\\"),
    "apostrophe": ("'a", "'a"),
    # What no encoding writes
    "lone surrogate": ("half &#xD83D; a", "half \ufffd a"),
    "NUL": ("a\0b", "a\ufffdb"),
    "not a character": ("a\uffffb", "a\uffffb"),
    "emoji and right-to-left": ("😀 \u202eevil", "😀 \u202eevil"),
}
"""By name: a page's title as it is served, and as its row has it in every format."""


def packed(*record: Any) -> bytes:
    return bytes((0, FORMAT)) + msgpack.packb(list(record))


RECORDS = {
    "empty": b"",
    "one byte": b"\0",
    "another format": b"\0\x63" + msgpack.packb(["/x", 0]),
    "no msgpack": b"\0\x01\xc1\xc1\xc1",
    "cut short": packed("/x", 0)[:-1],
    "text": b"http://site.test/",
    "a pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94.",
    "scrapy-redis JSON": b'{"url": "http://site.test/"}',
    "no list": bytes((0, FORMAT)) + msgpack.packb(5),
    "an empty list": packed(),
    "fields of other types": packed(5, "deep"),
    "meta that is no map": packed("/x", 0, "", {"meta": 5}),
    "an unknown field": packed("/x", 0, "", {"nonsense": 1}),
    "a method that is not there": packed("/x", 0, "", {"callback": "no_such_method"}),
    "a private method": packed("/x", 0, "", {"callback": "__init__"}),
    "a method that is no text": packed("/x", 0, "", {"errback": 5}),
    "a URL of another scheme": packed("file:///etc/passwd", 0),
    "a proxy that nobody named": packed("/x", 0, "", {"meta": {"proxy": "http://127.0.0.1:9"}}),
    "a URL that is none": packed("nonsense", 0),
    "nested without end": bytes((0, FORMAT)) + b"\x91" * 100_000,
    "a promise of 4 GB": bytes((0, FORMAT)) + b"\xdd\xff\xff\xff\xff",
}
"""By name: what lies in a queue instead of a record of ours."""

FOREIGN = "a URL of another scheme"
HUGE_META = {"url": "http://127.0.0.1/", "meta": {"blob": "x" * 300_000}}


class Crawled(NamedTuple):
    fleet: Fleet
    log: str
    asked: list[str]
    rejected: dict[str, str]
    letters: list[dict[str, Any]]


def titles(request: Request) -> Reply:
    served, _ = list(TITLES.values())[int(request.path.rpartition("/")[2])]
    text = served if "&#" in served else escape(served)
    return Reply(body=f"<title>{text}</title>".encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def crawled(module_fleet: Fleet, redis_process: RedisServer) -> Iterator[Crawled]:
    with redis_process.client() as client, Origin({}, default=titles) as origin:
        worker = module_fleet.start({"ROBOTSTXT_OBEY": False}, delay=0, per_host=16)
        wait_for(lambda: module_fleet.status()["epoch"], "the crawl has begun", 60)
        tell(module_fleet, "paused")
        pages = [origin.url(f"/title/{number}") for number in range(len(TITLES))]
        damaged = [origin.url(f"/damaged/{number}") for number in range(len(RECORDS))]
        client.lpush("site:start_urls", *pages, *damaged, json.dumps(HUGE_META))
        wait_for(lambda: module_fleet.status()["queued"] == len(pages + damaged), "all queued", 60)
        tamper(client, f"http://{origin.host}")
        tell(module_fleet, "running")
        assert worker.wait(90) == "finished", worker.log[-3000:]
        merged = module_fleet.command("merge", "site", "-s", f"CRAWL_OUTPUT={module_fleet.output}")
        assert merged.returncode == 0
        rejected = map(json.loads, client.lrange("site:start_urls:rejected", 0, -1))
        yield Crawled(
            module_fleet,
            worker.log,
            [one.path for one in origin.requests()],
            {one["seed"]: one["reason"] for one in rejected},
            json.loads(module_fleet.command("dead", "site", "--json").stdout)["letters"],
        )


def tell(fleet: Fleet, state: Any) -> None:
    async def set_state(frontier: Frontier) -> None:
        await frontier.attach()
        await frontier.set_state(state, ["running", "paused"])

    fleet.at_frontier(set_state)


def tamper(client: Redis, host: str) -> None:
    """Write over the entries that are to be damaged, and put one more beside them."""
    [queue] = client.scan_iter(f"{keys.queue_prefix('site', 0)}*:{host}")
    entries = client.lrange(queue, 0, -1)
    places = [place for place, entry in enumerate(entries) if b"/damaged/" in entry]
    for place, record in zip(places, RECORDS.values(), strict=True):
        client.lset(queue, place, record)
    client.rpush(queue, RECORDS[FOREIGN])


def test_the_crawl_finishes_with_everything_accounted_for(crawled: Crawled) -> None:
    now = crawled.fleet.status()
    assert [now[name] for name in ("balance", "queued", "delayed", "leased")] == [0] * 4
    assert now["done"] == len(TITLES)
    # What nobody had pushed was found in a queue all the same.
    assert now["discovered"] == len(TITLES) + len(RECORDS) + 1
    assert now["corrupt"] == 1
    assert "Traceback" not in crawled.log


def test_every_bad_record_is_set_aside_and_nothing_else(crawled: Crawled) -> None:
    now = crawled.fleet.status()
    # Some ask for the same: they share a letter, which counts them.
    assert set(now["reasons"]) == {"bad_record"}
    assert now["reasons"]["bad_record"] == len(crawled.letters)
    assert sum(letter["times"] for letter in crawled.letters) == len(RECORDS) + 1
    assert crawled.log.count("Set aside: ") == len(RECORDS) + 1


def test_no_bad_record_was_ever_asked_for(crawled: Crawled) -> None:
    assert sorted(crawled.asked) == sorted(f"/title/{number}" for number in range(len(TITLES)))


@pytest.mark.parametrize("name", TITLES)
def test_each_title_keeps_its_row_in_every_file(name: str, crawled: Crawled) -> None:
    given, written = TITLES[name]
    path = f"/title/{list(TITLES).index(name)}"
    folder = crawled.fleet.output / "site"
    for part in [*folder.glob("pages-*.csv"), folder / "pages.csv"]:
        with part.open(newline="", encoding="utf-8") as file:
            assert [row["title"] for row in csv.DictReader(file) if path_of(row) == path] == [
                written
            ]
    for part in [*folder.glob("pages-*.jsonl"), folder / "pages.jsonl"]:
        rows = [json.loads(line) for line in part.read_bytes().split(b"\n") if line]
        # An apostrophe of ours is for a CSV alone.
        scraped = written if given.startswith("'") else written.removeprefix("'")
        assert [row["title"] for row in rows if path_of(row) == path] == [scraped]


def path_of(row: dict[str, str]) -> str:
    return "/" + row["url"].split("/", 3)[3]


def test_oversized_meta_is_rejected_with_what_to_do(crawled: Crawled) -> None:
    [reason] = crawled.rejected.values()
    assert "more than FRONTIER_MAX_RECORD_BYTES=262144" in reason
    assert "keep large data out of meta" in reason
