"""Sites without end, and what keeps a crawl out of them: judged at the origin and by the ledger."""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from crawlproj.operate.request_log import fetch_counts
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request

QUICK = {"ROBOTSTXT_OBEY": False}


class Case(NamedTuple):
    """A link, and why it is not followed, or as what it is fetched."""

    href: str
    reason: str | None
    fetched: str | None = None


CASES = {
    "repeated segment": Case("/a/a/a/a", "trap-repeat"),
    "repeated segments": Case("/x/y/x/y/x/y/x/y", "trap-repeat"),
    "three times is real": Case("/b/b/b", None, "/b/b/b"),
    "deep path": Case("/" + "/".join(f"d{n}" for n in range(21)), "trap-depth"),
    "twenty segments are real": Case("/" + "/".join(f"e{n}" for n in range(20)), None),
    "many parameters": Case("/?" + "&".join(f"p{n}=1" for n in range(21)), "trap-params"),
    "image": Case("/photo.jpg", "media"),
    "film with a query": Case("/film.MP4?t=1", "media"),
    "archive": Case("/all.tar.gz", "media"),
    "font": Case("/f.woff2", "media"),
    "document": Case("/paper.pdf", None, "/paper.pdf"),
    "session id in the path": Case("/s;jsessionid=0123456789abcdef?x=1", None, "/s?x=1"),
    "session id in the query": Case("/s?PHPSESSID=abc&x=1", None, "/s?x=1"),
    "tracking": Case("/s?x=1&utm_source=a&gclid=b", None, "/s?x=1"),
    "token": Case("/t?sid=9b1deb4d3b7d4bad9bdd2b0d7b3dcb6d", None, "/t"),
    "section": Case("/t?sid=7", None, "/t?sid=7"),
}


class Crawled(NamedTuple):
    fetched: dict[str, int]
    status: dict[str, object]
    origin: str


@pytest.fixture(scope="module")
def crawled(module_fleet: Fleet) -> Iterator[Crawled]:
    anchors = "".join(f'<a href="{case.href}">x</a>' for case in CASES.values())
    # What a relative link that should have been absolute makes of every page.
    routes = {"/": Reply(body=f"{anchors}<a href=loop/>x</a>".encode())}
    endless = Reply(body=b"<a href=loop/>x</a>")
    with Origin(routes, default=endless) as origin:
        module_fleet.start(QUICK, seeds=origin.url("/"), delay=0, depth=6)
        assert module_fleet.wait() == ["finished"]
        counts = fetch_counts(origin.requests())
        fetched = {url.removeprefix(origin.url("")): count for url, count in counts.items()}
        yield Crawled(fetched, module_fleet.status(), origin.url(""))


@pytest.mark.parametrize("name", CASES)
def test_each_link_is_followed_in_one_form_or_left_alone(name: str, crawled: Crawled) -> None:
    case = CASES[name]
    path = case.fetched or case.href
    assert crawled.fetched.get(path, 0) == (case.reason is None)
    if path != case.href:
        assert case.href not in crawled.fetched


def test_each_link_left_alone_is_counted_with_its_reason(crawled: Crawled) -> None:
    filtered = crawled.status["filtered"]
    assert isinstance(filtered, dict)
    assert filtered["media"] == sum(case.reason == "media" for case in CASES.values())
    assert filtered["trap-depth"] == filtered["trap-params"] + 1 == 2  # and the loop below it
    assert filtered["trap-repeat"] >= 3
    assert crawled.status["balance"] == 0


def test_a_path_that_repeats_itself_ends_after_three_times(crawled: Crawled) -> None:
    loops = [path for path in crawled.fetched if re.fullmatch(r"/(loop/)+", path)]
    assert sorted(loops, key=len) == ["/loop/", "/loop/loop/", "/loop/loop/loop/"]


def month(request: Request) -> Reply:
    """An endless calendar: each page leads to the month before and to the one after."""
    found = re.fullmatch(r"/cal/(\d+)/(\d+)", request.path)
    if not found:
        return Reply(status=404)
    year, index = int(found[1]), int(found[2])
    sheet = calendar.HTMLCalendar().formatmonth(year, index)
    months = (year * 12 + index - 2, year * 12 + index)
    return Reply(body=f"{sheet}{_anchors(f'/cal/{n // 12}/{n % 12 + 1}' for n in months)}".encode())


def numbered(last: int) -> dict[str, Reply]:
    """Pages that differ in numbers only, each with links to the next three; /a to /e do not."""
    pages = {
        f"/p/{n}": Reply(body=_anchors(f"/p/{m}" for m in range(n + 1, n + 4)).encode())
        for n in range(last + 1)
    }
    others = {f"/{name}": Reply(body=f"page {name}".encode()) for name in "ghijk"}
    start = Reply(body=_anchors(["/p/0", *others]).encode())
    return {**pages, **others, "/": start}


def _anchors(paths: Iterable[str]) -> str:
    return "".join(f'<a href="{path}">x</a>' for path in paths)


def why(fleet: Fleet, url: str) -> str:
    told: str = json.loads(fleet.command("why", "site", url, "--json").stdout)["text"]
    return told


def assert_settled(fleet: Fleet) -> dict[str, object]:
    now = fleet.status()
    assert [now[name] for name in ("balance", "queued", "delayed", "leased")] == [0, 0, 0, 0]
    return now


def test_an_endless_calendar_ends_with_the_budget_of_its_host(fleet: Fleet) -> None:
    root = Reply(body=_anchors(["/cal/2024/1", "/about"]).encode())
    with Origin({"/": root, "/about": Reply()}, default=month) as origin:
        fleet.start(QUICK, seeds=origin.url("/"), delay=0, pages_per_host=30)
        assert fleet.wait() == ["finished"]
        assert len(origin.requests()) == 30
    now = assert_settled(fleet)
    assert now["done"] == 30
    assert now["filtered"]["host_limit"] > 0  # type: ignore[index]
    assert origin.url("/about") in fleet.urls()


def test_an_endless_calendar_is_set_aside_where_alike_pages_count_as_repeated(fleet: Fleet) -> None:
    root = Reply(body=_anchors(["/cal/2024/1", "/about"]).encode())
    settings = {**QUICK, "CRAWL_PATTERNS": "alike", "CRAWL_PATTERN_PAGES": 15}
    with Origin({"/": root, "/about": Reply()}, default=month) as origin:
        worker = fleet.start(settings, seeds=origin.url("/"), delay=0)
        assert worker.wait() == "finished"
    now = assert_settled(fleet)
    assert now["filtered"] == {"pattern": 2}
    assert now["patterns"][0]["pattern"] == f"{origin.url('')}/cal/#/#"  # type: ignore[index]
    assert worker.log.count("is set aside") == 1


def test_a_pattern_is_listed_explained_and_released(fleet: Fleet) -> None:
    settings = {**QUICK, "CRAWL_PATTERNS": "alike", "CRAWL_PATTERN_PAGES": 10}
    with Origin(numbered(60)) as origin:
        fleet.start(settings, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
        assert len(fetch_counts(origin.requests())) < 40
        before = assert_settled(fleet)
        pattern = f"{origin.url('')}/p/#"
        told = fleet.command("status", "site")
        assert pattern in told.stdout, told.stderr
        [row] = json.loads(fleet.command("patterns", "site", "--json").stdout)
        kept = before["filtered"]["pattern"]  # type: ignore[index]
        assert (row["pattern"], row["why"], row["urls"], row["kept"]) == (
            pattern,
            "repeated",
            kept,
            kept,
        )
        assert kept > 0
        listed = fleet.command("patterns", "site").stdout
        assert listed == f"site: 1 pattern\n\n  {pattern}  repeated, {kept} URLs, {kept} kept\n"
        assert fleet.command("patterns", "site", "--release", "/none").returncode == 1
        released = fleet.command("patterns", "site", "--release", pattern)
        assert released.stdout == (
            f"1 released, {kept} URLs queued; go on with scrapy crawl site\n"
        )
        fleet.run = "again"
        fleet.start(settings, seeds=origin.url("/"), delay=0)
        assert fleet.wait()[-1] == "finished"
        counts = fetch_counts(origin.requests())
    pages = {origin.url(f"/p/{number}") for number in range(61)}
    assert {url for url in counts if "/p/" in url} >= pages
    assert set(counts.values()) == {1}
    now = assert_settled(fleet)
    assert now["patterns"] == []
    assert "pattern" not in now["filtered"]  # type: ignore[operator]


def test_pages_that_differ_in_numbers_are_all_fetched_by_default(fleet: Fleet) -> None:
    with Origin(numbered(150)) as origin:
        fleet.start({**QUICK, "CRAWL_PATTERN_PAGES": 10}, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
    assert {origin.url(f"/p/{number}") for number in range(151)} <= set(fleet.urls())
    assert assert_settled(fleet)["patterns"] == []


def test_the_same_page_under_ever_new_urls_is_set_aside_by_default(fleet: Fleet) -> None:
    links = _anchors(f"{number}/" for number in range(1, 10))
    with Origin({}, default=Reply(body=links.encode())) as origin:
        settings = {**QUICK, "CRAWL_PATTERN_PAGES": 20, "CRAWL_STRATEGY": "breadth"}
        fleet.start(settings, seeds=origin.url("/t/"), delay=0, depth=3)
        assert fleet.wait() == ["finished"]
    now = assert_settled(fleet)
    assert [row["pattern"] for row in now["patterns"]] == [  # type: ignore[attr-defined]
        f"{origin.url('')}/t/#/#/"
    ]
    assert now["filtered"]["pattern"] >= 81 - 2 * 20  # type: ignore[index]


def test_a_path_with_ever_new_queries_is_set_aside(fleet: Fleet) -> None:
    def shop(request: Request) -> Reply:
        number = int(request.path.rpartition("=")[2])
        body = "".join(f'<a href="?f={number * 3 + n}">{number}</a>' for n in (1, 2, 3))
        return Reply(body=body.encode())

    root = Reply(body=b'<a href="/shop?f=0">x</a><a href="/about">x</a>')
    with Origin({"/": root, "/about": Reply()}, default=shop) as origin:
        fleet.start({**QUICK, "CRAWL_TRAP_QUERIES": 25}, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
        assert len(origin.requests()) <= 27
    now = assert_settled(fleet)
    [row] = now["patterns"]  # type: ignore[misc,attr-defined]
    assert (row["pattern"], row["why"]) == (f"{origin.url('')}/shop?*", "queries")
    told = {path: why(fleet, origin.url(path)) for path in ("/shop?f=24", "/a/a/a/a", "/x.jpg")}
    assert told["/shop?f=24"].startswith(f"set aside with its URL pattern {row['pattern']}")
    assert "CRAWL_TRAP_REPEATS=3" in told["/a/a/a/a"]
    assert "CRAWL_MEDIA" in told["/x.jpg"]


def test_media_are_fetched_if_they_are_asked_for_embedded_ones_too(fleet: Fleet) -> None:
    png = Reply(headers={"Content-Type": "image/png"}, body=b"\x89PNG")
    page = b"<a href=/linked.png>x</a><img src=/shown.png><img src=/gone.png>"
    with Origin({"/": Reply(body=page), "/linked.png": png, "/shown.png": png}) as origin:
        fleet.start({**QUICK, "CRAWL_MEDIA": True}, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
    assert {row["url"]: row["content_type"] for row in fleet.rows("pages")} == {
        origin.url("/"): "text/html",
        origin.url("/linked.png"): "image/png",
        origin.url("/shown.png"): "image/png",
    }
    assert [row["reason"] for row in fleet.rows("failures")] == ["http_404"]


@pytest.mark.parametrize("asked", [True, False])
def test_a_page_that_says_noindex_has_no_row_if_that_is_asked_for(
    fleet: Fleet, asked: bool
) -> None:
    hidden = b'<meta name=robots content="noindex"><a href=/c>x</a>'
    routes = {
        "/": Reply(body=b"<a href=/a>x</a><a href=/b>x</a><a href=/d>x</a>"),
        "/a": Reply(body=hidden),
        "/b": Reply(headers={"X-Robots-Tag": "crawlproj: noindex"}, body=b"b"),
        "/c": Reply(body=b"c"),
        "/d": Reply(headers={"X-Robots-Tag": "otherbot: noindex, nofollow"}, body=b"d"),
    }
    with Origin(routes) as origin:
        fleet.start({**QUICK, "CRAWL_NOINDEX": asked}, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
    shown = "/ /c /d" if asked else "/ /a /b /c /d"
    assert sorted(fleet.urls()) == [origin.url(path) for path in shown.split()]
    assert assert_settled(fleet)["filtered"] == ({"noindex": 2} if asked else {})


TAGS = {
    "nofollow": False,
    "none": False,
    "otherbot: nofollow": True,
    "crawlproj: nofollow": False,
    "otherbot: noindex, crawlproj: nofollow": False,
    "noarchive": True,
}


def test_nofollow_in_a_header_holds_for_whom_it_names(fleet: Fleet) -> None:
    routes = {"/": Reply(body=_anchors(f"/page{n}" for n in range(len(TAGS))).encode())}
    for number, tag in enumerate(TAGS):
        link = f"<a href=/after{number}>x</a>".encode()
        routes[f"/page{number}"] = Reply(headers={"X-Robots-Tag": tag}, body=link)
    with Origin(routes, default=Reply(body=b"after")) as origin:
        fleet.start(QUICK, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
    fetched = set(fleet.urls())
    after = [origin.url(f"/after{number}") in fetched for number in range(len(TAGS))]
    assert dict(zip(TAGS, after, strict=True)) == TAGS


def test_parameters_are_dropped_as_the_setting_says(fleet: Fleet) -> None:
    root = Reply(
        body=b'<a href="/p?ref=a&x=1">x</a><a href="/p?ref=b&x=1">x</a><a href="/p?utm_x=1">x</a>'
    )
    with Origin({"/": root}, default=Reply(body=b"p")) as origin:
        fleet.start({**QUICK, "CRAWL_DROP_PARAMS": "ref"}, seeds=origin.url("/?ref=c"), delay=0)
        assert fleet.wait() == ["finished"]
    assert {one.path for one in origin.requests()} == {"/", "/p?x=1", "/p?utm_x=1"}
