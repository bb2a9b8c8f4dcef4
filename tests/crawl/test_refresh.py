"""Pages that are revisited: judged at the origin, by rows and by the ledger."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from crawlproj.frontier import resting
from crawlproj.frontier.frontier import Frontier
from crawlproj.output.merge import merge
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.redis import wait_for

QUICK = {
    "CRAWL_REFRESH_SHORTEST": 0.1,
    "CRAWL_REFRESH_LONGEST": 2,
    "POLITENESS_BACKOFF": 0.1,
    "FRONTIER_MAX_ATTEMPTS": 2,
    "CRAWL_ALLOW_ADDRESSES": "loopback",
    "FRONTIER_LEASE_TIMEOUT": 4,
}
LINKS = "".join(f'<a href="/{name}">' for name in ("fast", "etag", "dated", "gone", "shaky", "to"))
DATE = "Tue, 17 Nov 2026 10:00:00 GMT"


def fast(request: Request) -> Reply:
    return Reply(body=f"<title>{request.attempt}</title>".encode())


def etag(request: Request) -> Reply:
    known = request.headers.get("if-none-match") == '"v1"'
    return Reply(304, {"ETag": '"v1"'}) if known else Reply(headers={"ETag": '"v1"'}, body=b"etag")


def dated(request: Request) -> Reply:
    known = request.headers.get("if-modified-since") == DATE
    headers = {"Last-Modified": DATE}
    return Reply(304, headers) if known else Reply(headers=headers, body=b"<title>d</title>")


def gone(request: Request) -> Reply:
    return Reply(body=b"here") if request.attempt < 3 else Reply(410)


def shaky(request: Request) -> Reply:
    """Cannot be had for a while, which must not end its revisits."""
    return Reply(403) if request.attempt in (2, 3) else Reply(body=b"shaky")


def redirect(request: Request) -> Reply:
    return Reply(302, {"Location": "/fast" if request.attempt < 3 else "/new"})


def sitemap(request: Request) -> Reply:
    inside = "<url><loc>/mapped</loc></url>" if request.attempt > 2 else ""
    return Reply(headers={"ETag": str(len(inside))}, body=f"<urlset>{inside}</urlset>".encode())


ROUTES: dict[str, Route] = {
    "/": Reply(body=LINKS.encode()),
    "/robots.txt": Reply(headers={"Content-Type": "text/plain"}, body=b"Sitemap: /map.xml"),
    "/map.xml": sitemap,
    "/mapped": Reply(body=b"found by a sitemap that was read again"),
    "/fast": fast,
    "/etag": etag,
    "/dated": dated,
    "/gone": gone,
    "/shaky": shaky,
    "/to": redirect,
    "/new": Reply(body=b"found by a revisit"),
}


async def rests(origin: Origin, path: str, frontier: Frontier) -> bool:
    await frontier.attach()
    number = resting.number_of(origin.url(""), path)
    return bool(await resting.among(frontier.shards[0], [number]))


def changes(fleet: Fleet, origin: Origin) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for row in fleet.rows("pages"):
        path = row["url"].removeprefix(origin.url(""))
        found.setdefault(path, Counter())[row["change"]] += 1
    return found


def test_revisits_tell_what_has_changed_and_what_is_gone(fleet: Fleet, tmp_path: Path) -> None:
    with Origin(ROUTES) as origin:
        worker = fleet.start(
            QUICK | {"CRAWL_SITEMAPS": True}, seeds=origin.url("/"), refresh="100/s", delay=0
        )
        pages = ROUTES.keys() - {"/robots.txt", "/map.xml", "/new", "/mapped"}
        wait_for(
            lambda: min(map(origin.times_asked, pages)) >= 3 and origin.times_asked("/shaky") >= 5,
            "revisits",
        )
        for path in ("/new", "/mapped"):
            wait_for(partial(origin.times_asked, path), "what a revisit has found")
        fleet.command("stop", "site")
        assert worker.wait() == "stopped"
        found = changes(fleet, origin)
        asked = {path: origin.times_asked(path) for path in ROUTES}
    status = fleet.status()
    assert status["balance"] == 0
    sitemaps = status["filtered"].get("sitemap", 0)
    assert status["resting"] == status["done"] + sitemaps
    assert status["done"] + sitemaps == 9 - status["queued"] - status["delayed"]
    assert "/map.xml" not in found, "a sitemap is no page"
    assert worker.log.count("All that is known has been fetched") <= 1
    assert found["/fast"].keys() == {"new", "changed"}
    assert found["/etag"] == {"new": 1, "unchanged": asked["/etag"] - 1}
    assert found["/dated"] == {"new": 1, "unchanged": asked["/dated"] - 1}
    assert found["/gone"] == {"new": 1, "unchanged": 1, "gone": 1}
    assert asked["/gone"] == 3
    assert found["/shaky"]["new"] == 1 and found["/shaky"].keys() == {"new", "unchanged"}
    assert found["/to"]["changed"] == 1
    assert found["/new"]["new"] == 1
    assert status["reasons"] == {"http_410": 1}
    assert status["revisits"] >= 14
    at_rest = [one for one in sorted(pages) if fleet.at_frontier(partial(rests, origin, one))]
    for path in at_rest[:1]:  # on a slow machine all of them may be due
        told = fleet.command("why", "site", origin.url(path)).stdout
        assert "due to be revisited at" in told

    merge(fleet.output / "site", tmp_path / "merged")
    text = (tmp_path / "merged" / "pages.csv").read_text()
    assert text.count("/dated,200,d,") == 1, "a 304 must not hide what is known of a page"
    assert "/gone,410," in text


PAGES, BUDGET_PER_S, WATCHED_S = 300, 40, 25


@pytest.mark.slow
def test_three_workers_keep_the_budget_and_lose_nothing_though_one_dies(fleet: Fleet) -> None:
    """As the origin sees it: pages that change at random, at rates from seconds to minutes."""
    began_s = time.time()
    made = random.Random(3)
    rates = {f"/{number}": math.exp(made.gauss(-3, 1.5)) for number in range(PAGES)}

    def page(request: Request) -> Reply:
        version = int((time.time() - began_s) * rates[request.path])
        return Reply(body=f"<title>{version}</title>".encode())

    links = "".join(f'<a href="{path}">' for path in rates).encode()
    routes: dict[str, Route] = {"/": Reply(body=links), "/robots.txt": Reply(404)}
    with Origin(routes | dict.fromkeys(rates, page)) as origin:
        words = {"seeds": origin.url("/"), "refresh": f"{BUDGET_PER_S}/s", "delay": 0}
        workers = [fleet.start(QUICK | {"CRAWL_REFRESH_LONGEST": 600}, **words) for _ in range(3)]
        wait_for(lambda: fleet.status()["done"] > PAGES, "the first pass")
        # What it needed beyond the budget is owed for ten seconds, of which five may be saved.
        settled = len(origin.requests()) + 15 * BUDGET_PER_S
        wait_for(lambda: len(origin.requests()) > settled, "the budget alone", timeout_s=60)
        since_s = time.time()
        wait_for(lambda: time.time() > since_s + WATCHED_S / 3, "a third", timeout_s=60)
        workers[0].kill()
        wait_for(lambda: time.time() > since_s + WATCHED_S, "the rest", timeout_s=60)
        until_s = time.time()
        asked = [one for one in origin.requests() if since_s <= one.start_s < until_s]
        fleet.command("stop", "site")
        assert [worker.wait() for worker in workers[1:]] == ["stopped"] * 2
    per_s = len(asked) / (until_s - since_s)
    assert per_s == pytest.approx(BUDGET_PER_S, rel=0.05)
    status = fleet.status()
    left = sum(status[name] for name in ("queued", "delayed", "leased"))
    assert (status["balance"], status["dead"]) == (0, 0)
    assert status["resting"] == status["done"] == PAGES + 1 - left
