"""Sitemaps that robots.txt names, fetched through the frontier: judged at the origins."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from isal import igzip

from crawlproj.operate.audit import RESOLUTION_S
from crawlproj.operate.request_log import smallest_gap_s
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.redis import RedisServer

SETTINGS = {
    "CRAWL_SITEMAPS": True,
    "CRAWL_ALLOW_ADDRESSES": "loopback",
    "FRONTIER_MAX_ATTEMPTS": 2,
    "POLITENESS_BACKOFF": 0.1,
}
DELAY_S = 0.05
BOMB = igzip.compress(bytes(60 * 1024 * 1024))


def xml(kind: str, locations: Iterable[str]) -> Reply:
    item = "sitemap" if kind == "sitemapindex" else "url"
    inside = "".join(f"<{item}><loc>{one}</loc></{item}>" for one in locations)
    text = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e "{"x" * 99}">]><{kind}>{inside}</{kind}>'
    return Reply(headers={"Content-Type": "application/xml"}, body=text.encode())


def packed(reply: Reply) -> Reply:
    return Reply(headers={"Content-Type": "application/x-gzip"}, body=gzip.compress(reply.body))


def robots(*names: str, rules: str = "Disallow: /private") -> Reply:
    lines = "".join(f"Sitemap: {name}\n" for name in names)
    return Reply(
        headers={"Content-Type": "text/plain"}, body=f"User-agent: *\n{rules}\n{lines}".encode()
    )


def once_busy(request: Request) -> Reply:
    return Reply(503) if request.attempt == 1 else xml("urlset", ["/late"])


def site(*names: str, **routes: Route) -> dict[str, Route]:
    """`map_xml=` is the route of `/map.xml`."""
    paths: dict[str, Route] = {f"/{name.replace('_', '.')}": one for name, one in routes.items()}
    return {"/": Reply(body=b"start"), "/robots.txt": robots(*names), **paths}


LOOP = xml("sitemapindex", ["/map.xml", "/b.xml"])
SITES: dict[str, tuple[dict[str, Route], str]] = {
    "list": (site("/map.xml", map_xml=xml("urlset", ["/1", "/2?a=1&amp;b=2"])), "/1 /2?a=1&b=2"),
    "packed": (site("/map.gz", map_gz=packed(xml("urlset", ["/1"]))), "/1"),
    "text": (
        site(
            "/map.txt", map_txt=lambda one: Reply(body=f"http://{one.headers['host']}/1".encode())
        ),
        "/1",
    ),
    "index": (
        site(
            "/map.xml",
            map_xml=xml("sitemapindex", ["/a.xml", "/b.xml"]),
            a_xml=xml("urlset", ["/1"]),
            b_xml=xml("urlset", ["/2"]),
        ),
        "/1 /2",
    ),
    "two": (
        site("/a.xml", "/b.xml", a_xml=xml("urlset", ["/1"]), b_xml=xml("urlset", ["/2"])),
        "/1 /2",
    ),
    "cycle": (site("/map.xml", map_xml=LOOP, b_xml=LOOP), ""),
    "moved": (
        site("/map.xml", map_xml=Reply(301, {"Location": "/b.xml"}), b_xml=xml("urlset", ["/1"])),
        "/1",
    ),
    "busy": (site("/map.xml", map_xml=once_busy), "/late"),
    "missing": (site("/map.xml"), ""),
    "html": (site("/map.xml", map_xml=Reply(body=b"<html><a href=/no>x</a>")), ""),
    "disallowed": (site("/private/map.xml", **{"private/map_xml": xml("urlset", ["/no"])}), ""),
    "disallowed page": (site("/map.xml", map_xml=xml("urlset", ["/private/a", "/1"])), "/1"),
    "elsewhere": (site("http://127.0.9.200:1/map.xml", "http://[", "ftp://h/map.xml"), ""),
    "offsite page": (
        site("/map.xml", map_xml=xml("urlset", ["http://127.0.9.200:1/x", "/1"])),
        "/1",
    ),
    "bomb": (site("/map.gz", map_gz=Reply(body=BOMB)), ""),
    "encoded bomb": (
        site("/map.xml", map_xml=Reply(headers={"Content-Encoding": "gzip"}, body=BOMB)),
        "",
    ),
}
CHAIN = {f"/{n}.xml": xml("sitemapindex", [f"/{n + 1}.xml"]) for n in range(20)}
SITES["deep"] = ({**site("/0.xml"), **CHAIN}, "")


class Crawled:
    def __init__(self, fleet: Fleet, origins: dict[str, Origin]) -> None:
        self.fleet = fleet
        self.origins = origins

    def asked(self, name: str) -> Counter[str]:
        return Counter(one.path for one in self.origins[name].requests())

    def reasons(self, name: str) -> list[str]:
        base = self.origins[name].url("")
        return [one["reason"] for one in self.fleet.rows("failures") if one["url"].startswith(base)]


@pytest.fixture(scope="module")
def crawled(module_fleet: Fleet) -> Iterator[Crawled]:
    with ExitStack() as stack:
        origins = {
            name: stack.enter_context(Origin(routes, address=f"127.0.9.{number}", default=_page))
            for number, (name, (routes, _)) in enumerate(SITES.items(), 1)
        }
        seeds = ",".join(origin.url("/") for origin in origins.values())
        for _ in range(2):
            module_fleet.start(SETTINGS, seeds=seeds, delay=DELAY_S)
        assert module_fleet.wait() == ["finished"] * 2
        yield Crawled(module_fleet, origins)


def _page(request: Request) -> Reply:
    is_map = request.path.endswith((".xml", ".gz"))
    return Reply(404) if is_map else Reply(body=request.path.encode())


@pytest.mark.parametrize("name", SITES)
def test_the_pages_of_a_sitemap_are_fetched_and_nothing_else(name: str, crawled: Crawled) -> None:
    pages = {path for path in crawled.asked(name) if not path.endswith((".xml", ".gz", ".txt"))}
    assert pages == {"/", *SITES[name][1].split()}


@pytest.mark.parametrize("name", SITES)
def test_every_sitemap_is_asked_for_once_and_in_its_turn(name: str, crawled: Crawled) -> None:
    asked = crawled.asked(name)
    again = {"/map.xml"} if name == "busy" else set()
    assert {path for path, times in asked.items() if times > 1} == again
    (gap_s,) = smallest_gap_s(crawled.origins[name].requests()).values()
    assert gap_s >= DELAY_S - RESOLUTION_S


def test_a_sitemap_that_cannot_be_had_or_is_too_large_is_dead_with_its_reason(
    crawled: Crawled,
) -> None:
    reasons = {name: crawled.reasons(name) for name in SITES}
    assert {name: found for name, found in reasons.items() if found} == {
        "missing": ["http_404"],
        "bomb": ["size"],
        "encoded bomb": ["size"],
    }


def test_indexes_below_indexes_are_followed_five_times(crawled: Crawled) -> None:
    maps = [path for path in crawled.asked("deep") if path.endswith(".xml")]
    assert sorted(maps) == [f"/{number}.xml" for number in range(6)]
    sixth = crawled.origins["deep"].url("/6.xml")
    why = crawled.fleet.command("why", "site", sixth)
    assert "not followed: more than 5 sitemaps, one after the other, led to it" in why.stdout


def test_every_sitemap_is_accounted_for(crawled: Crawled) -> None:
    now = crawled.fleet.status()
    assert [now[name] for name in ("balance", "queued", "delayed", "leased")] == [0, 0, 0, 0]
    filtered = now["filtered"]
    assert filtered["offsite"] == 2
    assert (filtered["host"], filtered["scheme"], filtered["trap-sitemap"]) == (1, 1, 1)
    assert filtered["robots"] == 2
    read = sum(
        path.endswith((".xml", ".gz", ".txt")) and path != "/robots.txt"
        for name in SITES
        for path in crawled.asked(name)
    )
    assert filtered["sitemap"] == read - 3


def test_rows_of_pages_from_a_sitemap_name_it_as_where_they_were_found(crawled: Crawled) -> None:
    rows = {row["url"]: row for row in crawled.fleet.rows("pages")}
    base = crawled.origins["index"].url("")
    assert rows[f"{base}/2"]["referer"] == f"{base}/b.xml"
    assert rows[f"{base}/2"]["depth"] == "1"
    assert not any(url.endswith((".xml", ".gz")) for url in rows)


def test_sitemaps_are_left_alone_unless_asked_for_and_may_be_seeds(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    routes = site("/map.xml", map_xml=xml("urlset", ["/1"]), own_xml=xml("urlset", ["/2"]))
    with Origin(routes, default=_page) as origin, Fleet(tmp_path, redis_server.url) as fleet:
        seed = f'{{"url": "{origin.url("/own.xml")}", "meta": {{"crawl_sitemap": true}}}}'
        added = fleet.command("seed", "site", origin.url("/"), seed)
        assert added.returncode == 0, added.stderr
        fleet.start({}, delay=0)
        assert fleet.wait() == ["finished"]
        asked = {one.path for one in origin.requests()}
    assert asked == {"/robots.txt", "/", "/own.xml", "/2"}
    assert fleet.status()["filtered"] == {"robots_txt": 1, "sitemap": 1}
