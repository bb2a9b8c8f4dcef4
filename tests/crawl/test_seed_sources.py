"""Seeds from a search engine, a sitemap and a feed, by the real command from real servers."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest
from isal import igzip
from redis import Redis

from crawlproj.frontier import keys
from tests.servers.fleet import Fleet
from tests.servers.origin import HANG, Origin, Raw, Reply, Request, Route
from tests.servers.search_pages import duckduckgo, searxng

SEEDS = keys.start_urls("site")
PAGES = [f"https://p{number}.example/" for number in range(25)]
QUICK = ("-s", "POLITENESS_DELAY=0", "-s", "DOWNLOAD_TIMEOUT=5")


def seeds(redis: Redis) -> list[str]:
    """Those that wait, in the order in which they will be taken."""
    return [seed.decode() for seed in redis.lrange(SEEDS, 0, -1)]


def seed(fleet: Fleet, *words: str) -> CompletedProcess[str]:
    return fleet.command("seed", "site", *QUICK, *words)


def said(result: CompletedProcess[str]) -> tuple[int, str, str]:
    """The exit code and what was printed; what goes wrong is said in one line."""
    assert result.stderr.count("\n") <= 1 and "Traceback" not in result.stderr
    return result.returncode, result.stdout, result.stderr


def of(pages: list[str], body: str | None = None) -> Reply:
    text = body or "".join(f"<url><loc>{page}</loc></url>" for page in pages)
    return Reply(body=f"<urlset>{text}</urlset>".encode())


def index(*sitemaps: str) -> Reply:
    text = "".join(f"<sitemap><loc>{one}</loc></sitemap>" for one in sitemaps)
    return Reply(body=f"<sitemapindex>{text}</sitemapindex>".encode())


# Searching


def results(request: Request) -> Reply:
    """An engine of 25 results, ten on its first page."""
    fields = dict(pair.split("=") for pair in request.body.decode().split("&") if pair)
    start = int(fields.get("s", 0))
    shown, rest = PAGES[start : start + 10], start + 10 < len(PAGES)
    body = duckduckgo(shown, ads=["https://ad.example/"], offset=start + 10 if rest else None)
    return Reply(body=body.encode())


def test_the_results_of_a_search_are_seeds_in_their_order(fleet: Fleet, redis: Redis) -> None:
    with Origin({}, default=results) as engine:
        address = ("-s", f"CRAWL_SEARCH_URL={engine.url('/html/')}")
        first = seed(fleet, "--search", "two words", *address)
        assert said(first) == (0, "10 new, 0 known already, 0 refused\n", "")
        assert seeds(redis) == PAGES[:10]
        assert [one.path for one in engine.requests()] == ["/html/?q=two+words"]
        more = seed(fleet, "--search", "two words", "--results", "23", *address)
        assert said(more) == (0, "13 new, 10 known already, 0 refused\n", "")
        assert seeds(redis) == PAGES[:23]
        assert [one.method for one in engine.requests()] == ["GET", "GET", "POST", "POST"]


def test_a_searxng_and_an_engine_of_ones_own_are_asked_at_their_address(
    fleet: Fleet, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {1: PAGES[:4], 2: PAGES[3:6], 3: []}
    routes: dict[str, Route] = {
        f"/search?q=w&format=json&pageno={number}": Reply(body=searxng(found).encode())
        for number, found in pages.items()
    }
    with Origin({**routes, "/own/w": Reply(body="\n".join(PAGES[6:9]).encode())}) as engine:
        monkeypatch.setenv("CRAWL_SEARCH_URL", engine.url("/"))
        found = seed(fleet, "--search", "w", "--engine", "searxng", "--results", "9")
        assert said(found)[:2] == (0, "6 new, 0 known already, 0 refused\n")
        monkeypatch.setenv("CRAWL_SEARCH_URL", engine.url("/own/"))
        found = seed(fleet, "--search", "w", "--engine", "tests.servers.search_pages.Lines")
        assert said(found)[:2] == (0, "3 new, 0 known already, 0 refused\n")
    assert seeds(redis) == PAGES[:9]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            Reply(status=202, body=b"<form id=challenge-form>"),
            "wants a proof that a human searches",
        ),
        (Reply(body=b"<h1>A new design</h1>"), "no list of results"),
        (Reply(body=duckduckgo([], nothing=True).encode()), "no results for 'w'"),
        (Reply(status=302, headers={"Location": "http://10.1.2.3/"}), "10.1.2.3 (private)"),
        (Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 9_000_000), "bytes"),
        (Raw(b"SSH-2.0\r\n"), "127.0.0.1"),
    ],
)
def test_a_search_without_results_is_one_line_and_exit_code_1(
    fleet: Fleet, redis: Redis, answer: Reply | Raw, message: str
) -> None:
    with Origin({}, default=answer) as engine:
        address = ("-s", f"CRAWL_SEARCH_URL={engine.url('/')}")
        code, shown, line = said(seed(fleet, "--search", "w", *address))
    assert (code, shown) == (1, "") and message in line
    assert redis.keys("*") == []


def test_what_was_found_before_an_engine_refuses_is_kept_and_the_rest_is_said(
    fleet: Fleet, redis: Redis
) -> None:
    def answer(request: Request) -> Reply:
        return results(request) if request.method == "GET" else Reply(status=429)

    with Origin({}, default=answer) as engine:
        address = ("-s", f"CRAWL_SEARCH_URL={engine.url('/')}")
        code, shown, line = said(seed(fleet, "--search", "w", "--results", "20", *address))
    assert (code, shown) == (1, "10 new, 0 known already, 0 refused\n")
    assert line == f"left out: further results: {engine.host} answers with status 429\n"
    assert seeds(redis) == PAGES[:10]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--search", "w", "--engine", "gooogle"], "engine gooogle: give duckduckgo, searxng or"),
        (["--search", "w", "--engine", "searxng"], "engine searxng: set CRAWL_SEARCH_URL"),
        (["--search", "w", "--results", "0"], "0: give a whole number, 1 to 1,000,000"),
        (["--search", "w", "http://a/"], "give URLs or --search, not both"),
        (["--sitemap", "nonsense"], "nonsense: "),
        (["http://a/", "--results", "3"], "--results goes with --search, --sitemap or --feed"),
    ],
)
def test_wrong_use_of_a_source_is_said_before_anything_is_fetched(
    fleet: Fleet, words: list[str], message: str
) -> None:
    code, shown, line = said(seed(fleet, *words))
    assert (code, shown) == (2, "") and message in line


# Sitemaps and feeds


def test_a_sitemap_and_all_that_its_index_names_are_seeds(fleet: Fleet, redis: Redis) -> None:
    routes: dict[str, Route] = {}
    with Origin(routes) as origin:
        routes |= {
            "/sitemap.xml": Reply(status=301, headers={"Location": "/index.xml"}),
            "/index.xml": index("/a.xml", origin.url("/b.xml.gz"), "/index.xml", "/gone.xml"),
            "/a.xml": of(["/1", origin.url("/2?a=1,2")]),
            "/b.xml.gz": Reply(body=gzip.compress(of([origin.url("/3")]).body)),
        }
        found = seed(fleet, "--sitemap", origin.url("/sitemap.xml"))
        gone = f"left out: {origin.url('/gone.xml')}: status 404\n"
        assert said(found) == (1, "3 new, 0 known already, 0 refused\n", gone)
        pages = [origin.url(path) for path in ("/1", "/2?a=1,2", "/3")]
        assert seeds(redis) == pages
        again = seed(fleet, "--sitemap", origin.url("/a.xml"), "--results", "1")
        assert said(again) == (0, "0 new, 1 known already, 0 refused\n", "")


def test_what_a_hostile_source_names_beside_its_pages_harms_neither_them_nor_the_terminal(
    fleet: Fleet, redis: Redis
) -> None:
    links = ["//[", "ftp://x/\x1b[2J", "/1"]
    items = "".join(f"<item><link>{link}</link></item>" for link in links)
    routes: dict[str, Route] = {
        "/feed": Reply(body=f"<rss>{items}</rss>".encode()),
        "/map": of(links),
        "/index": index("/map", *(f"ftp://{n}/\x1b[2J" for n in range(1000))),
    }
    with Origin(routes) as origin:
        for way, path in (("--feed", "/feed"), ("--sitemap", "/map"), ("--sitemap", "/index")):
            found = seed(fleet, way, origin.url(path))
            assert found.returncode == 1 and "2 refused" in found.stdout
            assert "Traceback" not in found.stderr and "\x1b" not in found.stderr
            assert "refused: ftp://x/\\x1b[2J: " in found.stderr
        assert seeds(redis) == [origin.url("/1")]
    left_out = [line for line in found.stderr.splitlines() if line.startswith("left out")]
    assert len(left_out) == 101 and left_out[-1] == "left out: 900 more"


def test_a_feed_is_read_whatever_it_comes_packed_in(fleet: Fleet, redis: Redis) -> None:
    rss = b"<rss><item><link>/1</link></item><item><link>/2</link></item></rss>"
    packed = {"Content-Encoding": "deflate", "Content-Type": "application/rss+xml"}
    atom = b'<feed><entry><link href="https://other.example/3"/></entry></feed>'
    routes = {"/rss": Reply(headers=packed, body=zlib.compress(rss)), "/atom": Reply(body=atom)}
    with Origin(routes) as origin:
        assert said(seed(fleet, "--feed", origin.url("/rss")))[0] == 0
        assert said(seed(fleet, "--feed", origin.url("/atom")))[0] == 0
        assert seeds(redis) == [origin.url("/1"), origin.url("/2"), "https://other.example/3"]


BOMB = igzip.compress(b"<urlset>" + b" " * 60_000_000)


@pytest.mark.parametrize(
    ("way", "answer", "message"),
    [
        ("--sitemap", Reply(body=b"<html>no sitemap</html>"), "names no page"),
        ("--sitemap", Reply(status=500), "status 500"),
        ("--sitemap", Reply(body=BOMB), "unpacks to more than"),
        (
            "--sitemap",
            Reply(headers={"Content-Encoding": "gzip"}, body=BOMB),
            "more than 52,428,800",
        ),
        (
            "--sitemap",
            Reply(headers={"Content-Encoding": "gzip"}, body=b"no gzip"),
            "cannot be unpacked",
        ),
        ("--sitemap", Reply(headers={"Content-Encoding": "exi"}, body=b"x"), "the encoding exi"),
        ("--sitemap", HANG, "no answer within 0.5 s"),
        ("--sitemap", Reply(status=302, headers={"Location": "/"}), "more than 5 redirects"),
        ("--feed", Reply(body=b"<html>no feed</html>"), "no feed: neither RSS nor Atom"),
        ("--feed", Reply(body=b"<rss></rss>"), "names no page"),
        (
            "--feed",
            Reply(status=302, headers={"Location": "http://169.254.169.254/latest/"}),
            "169.254.169.254 (metadata)",
        ),
    ],
)
def test_a_source_that_gives_no_seeds_is_one_line_and_exit_code_1(
    fleet: Fleet, redis: Redis, way: str, answer: Route, message: str
) -> None:
    with Origin({}, default=answer) as origin:
        patience = ["-s", "DOWNLOAD_TIMEOUT=0.5"] if answer is HANG else []
        code, shown, line = said(seed(fleet, way, origin.url("/"), *patience))
    assert (code, shown) == (1, "") and message in line
    assert redis.keys("*") == []


def test_an_index_of_indexes_ends(fleet: Fleet, redis: Redis) -> None:
    def deeper(request: Request) -> Reply:
        return index(f"{request.path}x")

    with Origin({}, default=deeper) as origin:
        code, shown, line = said(seed(fleet, "--sitemap", origin.url("/")))
        assert (code, shown) == (1, "") and "an index 5 steps from the first" in line
        assert len(origin.requests()) == 6


def test_a_seed_that_a_sitemap_names_opens_no_network_that_its_user_has_not(
    fleet: Fleet, redis: Redis, origin: Origin
) -> None:
    """localhost stands for any name that leads into one's own network."""
    inside = origin.url("/").replace("127.0.0.1", "localhost")
    with Origin({"/map": of([inside])}) as other:
        assert said(seed(fleet, "--sitemap", other.url("/map")))[0] == 0
    worker = fleet.start({"ROBOTSTXT_OBEY": False}, delay=0)
    assert worker.wait() == "finished"
    assert fleet.status()["filtered"] == {"address": 1} and origin.requests() == []
    assert said(seed(fleet, inside))[1] == "1 new, 0 known already, 0 refused\n"
    worker = fleet.start({"ROBOTSTXT_OBEY": False, "CRAWL_RUN_ID": ""}, delay=0)
    assert worker.wait() == "finished"
    assert fleet.urls()[-1:] == [inside]


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin({}, default=Reply(body=b"x")) as serving:
        yield serving
