"""What becomes of a host by what its robots.txt is, or is not: real workers, judged at the origin.

Most cases are hosts of one crawl, which is made once: each answers its robots.txt in its own way
and has the same four pages, of which /a and /b are what rules are about.
"""

from __future__ import annotations

import gzip
import json
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain as chained
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from crawlproj.frontier import keys
from crawlproj.operate.audit import RESOLUTION_S
from crawlproj.operate.request_log import Logged, smallest_gap_s
from crawlproj.politeness.robots_store import ASKED_S
from tests.servers.fleet import Fleet
from tests.servers.origin import HANG, RESET, Origin, Raw, Reply, Request, Route
from tests.servers.redis import RedisServer, wait_for

ATTEMPTS = 3
RETRY_S = 0.3
LONGEST_PAUSE_S = 1.0
SETTINGS = {
    "CRAWL_ALLOW_ADDRESSES": "loopback",
    # Of pages: less than what is read of a robots.txt.
    "DOWNLOAD_MAXSIZE": "100000",
    "DOWNLOAD_TIMEOUT": "3",
    "FRONTIER_MAX_ATTEMPTS": str(ATTEMPTS),
    "FRONTIER_RETRY_DELAY": str(RETRY_S),
    "POLITENESS_BACKOFF": "0.1",
    "POLITENESS_LONGEST_PAUSE": str(LONGEST_PAUSE_S),
}
PAGES = {"/", "/a", "/b", "/go"}
ELSEWHERE = "127.0.8.200"
FULL_OF_STARS = "/x" + "a" * 1900 + "!"
"""A path on which a matcher that goes back and forth would never end."""


def rules(text: bytes) -> Reply:
    return Reply(headers={"Content-Type": "text/plain"}, body=text)


def moved(to: str) -> Reply:
    return Reply(301, {"Location": to})


def chain(length: int, last: Route) -> dict[str, Route]:
    """A robots.txt that is so many redirects away."""
    steps: dict[str, Route] = {
        f"/hop{number}": moved(f"/hop{number + 1}") for number in range(length)
    }
    return {**steps, "/robots.txt": moved("/hop1"), f"/hop{length}": last}


NO_A = b"User-agent: *\nDisallow: /a\n"
LARGE = NO_A + (b"#" * 99 + b"\n") * 5120 + b"User-agent: *\nDisallow: /b\n"


def endless(_: Request) -> Raw:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    return Raw(chained([head + NO_A], repeat(b"# more\n" * 10_000)))


def zipped(body: bytes) -> Reply:
    return Reply(headers={"Content-Encoding": "gzip"}, body=gzip.compress(body))


ALLOWING: dict[str, Mapping[str, Route]] = {
    "404": {},
    "403": {"/robots.txt": Reply(403, body=NO_A)},
    "410": {"/robots.txt": Reply(410)},
    "empty": {"/robots.txt": rules(b"")},
    "loop": {"/robots.txt": moved("/robots.txt")},
    "six redirects": chain(6, rules(NO_A)),
    "redirect to nowhere": {"/robots.txt": moved("http://[")},
    "redirect without a location": {"/robots.txt": Reply(302)},
}
RULING: dict[str, Mapping[str, Route]] = {
    "plain": {"/robots.txt": rules(NO_A)},
    "as HTML": {"/robots.txt": Reply(body=b"<html><body>\nUser-agent: *\nDisallow: /a\n</body>")},
    "BOM": {"/robots.txt": rules(b"\xef\xbb\xbf" + NO_A)},
    "CR only": {"/robots.txt": rules(NO_A.replace(b"\n", b"\r"))},
    "five redirects": chain(5, rules(NO_A)),
    "more than 500 KiB": {"/robots.txt": rules(LARGE)},
    "more than 500 KiB, compressed": {"/robots.txt": zipped(LARGE)},
    "without end": {"/robots.txt": endless},
    "full of stars": {
        "/robots.txt": rules(NO_A + b"Disallow: /x" + b"*a" * 300 + b"$\n"),
        "/": Reply(body=f"<a href={FULL_OF_STARS}>x</a><a href=/go>x</a><a href=/b>".encode()),
        FULL_OF_STARS: Reply(),
    },
    "for us by name": {
        "/robots.txt": rules(b"User-agent: *\nDisallow: /\n\nUser-agent: crawlproj\nDisallow: /a\n")
    },
    "delay of minus one": {"/robots.txt": rules(NO_A + b"Crawl-delay: -1\n")},
    "delay of 30 years": {"/robots.txt": rules(NO_A + b"Crawl-delay: 1e9\n")},
}
UNREACHABLE: dict[str, Mapping[str, Route]] = {
    "500": {"/robots.txt": Reply(500, body=b"User-agent: *\nAllow: /\n")},
    "503": {"/robots.txt": Reply(503)},
    "429": {"/robots.txt": Reply(429)},
    "timeout": {"/robots.txt": HANG},
    "reset": {"/robots.txt": RESET},
    "bomb": {"/robots.txt": zipped(NO_A + bytes(40_000_000))},
    "redirect to a 500": {"/robots.txt": moved("/gone"), "/gone": Reply(500)},
}


BORROWING = "at another host"
REFUSED = {"plain": "/a", BORROWING: "/a", "500": "/"}


class Hosts:
    """Origins by the name of their case, and what they saw."""

    def __init__(
        self, stack: ExitStack, cases: Mapping[str, Mapping[str, Route]], elsewhere: Origin
    ) -> None:
        self.elsewhere = elsewhere
        self.ledger: dict[str, Any] = {}
        self.told: dict[str, Any] = {}
        self.by_name = {
            name: stack.enter_context(Origin(site(routes), address=f"127.0.8.{number}"))
            for number, (name, routes) in enumerate(cases.items(), 1)
        }

    @property
    def seeds(self) -> str:
        return ",".join(origin.url("/") for origin in self.by_name.values())

    def log(self, name: str) -> list[Logged]:
        return sorted(self.by_name[name].requests())

    def asked(self, name: str) -> Counter[str]:
        return Counter(request.path for request in self.log(name))

    def pages(self, name: str) -> set[str]:
        return PAGES & set(self.asked(name))


def site(routes: Mapping[str, Route]) -> dict[str, Route]:
    """Four pages, one of which leads to another by a redirect."""
    pages: dict[str, Route] = {path: Reply(body=path.encode()) for path in ("/a", "/b")}
    root = Reply(body=b"<a href=/go>x</a><a href=/b>x</a>")
    return {"/": root, "/go": Reply(302, {"Location": "/a"}), **pages, **routes}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer) -> Iterator[Hosts]:
    """Every case, crawled by three workers."""
    with redis_process.client() as client:
        client.flushall()
    elsewhere = Origin({"/rules": rules(NO_A)}, address=ELSEWHERE)
    with ExitStack() as stack:
        stack.enter_context(elsewhere)
        fleet = stack.enter_context(Fleet(tmp_path_factory.mktemp("robots"), redis_process.url))
        borrowed = {BORROWING: {"/robots.txt": moved(elsewhere.url("/rules"))}}
        found = Hosts(stack, {**ALLOWING, **RULING, **UNREACHABLE, **borrowed}, elsewhere)
        for _ in range(3):
            fleet.start(SETTINGS, seeds=found.seeds, delay=0.02)
        assert fleet.wait() == ["finished"] * 3
        found.ledger = fleet.status()
        for name, path in REFUSED.items():
            asked = fleet.command("why", "site", found.by_name[name].url(path), "--json")
            found.told[name] = json.loads(asked.stdout)
        yield found


@pytest.mark.parametrize("name", ALLOWING)
def test_a_host_without_a_robots_txt_allows_everything(hosts: Hosts, name: str) -> None:
    assert hosts.pages(name) == PAGES


@pytest.mark.parametrize("name", [*RULING, BORROWING])
def test_rules_are_obeyed_however_they_are_served_even_by_redirects(
    hosts: Hosts, name: str
) -> None:
    assert hosts.pages(name) == PAGES - {"/a"}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_nothing_is_fetched_while_robots_txt_cannot_be_reached(hosts: Hosts, name: str) -> None:
    assert hosts.pages(name) == set()


@pytest.mark.parametrize("name", ["500", "503", "429", "timeout", "reset"])
def test_a_robots_txt_out_of_reach_is_tried_again_ever_more_slowly(hosts: Hosts, name: str) -> None:
    log = hosts.log(name)
    assert [request.path for request in log] == ["/robots.txt"] * ATTEMPTS
    gaps_s = [later.start_s - one.end_s for one, later in pairwise(log)]
    for number, gap_s in enumerate(gaps_s):
        assert gap_s >= RETRY_S * 2**number - 0.02


@pytest.mark.parametrize("name", [*ALLOWING, *RULING, BORROWING])
def test_robots_txt_comes_first_and_once_for_all_workers(hosts: Hosts, name: str) -> None:
    paths = [request.path for request in hosts.log(name)]
    first_page = next(index for index, path in enumerate(paths) if path in PAGES)
    assert paths[0] == "/robots.txt"
    assert not PAGES & set(paths[:first_page])
    assert set(paths[first_page:]) <= PAGES | {FULL_OF_STARS}
    times = 6 if name == "loop" else 1
    assert hosts.asked(name) == Counter(dict.fromkeys(paths, 1)) | {"/robots.txt": times}


def test_at_most_five_redirects_are_followed(hosts: Hosts) -> None:
    hops = [path for path in hosts.asked("six redirects") if path.startswith("/hop")]
    assert sorted(hops) == [f"/hop{number}" for number in range(1, 6)]
    assert hosts.asked("loop")["/robots.txt"] == 6


def test_an_absurd_crawl_delay_is_clamped(hosts: Hosts) -> None:
    slow, quick = hosts.log("delay of 30 years"), hosts.log("delay of minus one")
    (gap_s,) = smallest_gap_s(slow).values()
    assert LONGEST_PAUSE_S - RESOLUTION_S <= gap_s < 5 * LONGEST_PAUSE_S
    (gap_s,) = smallest_gap_s(quick).values()
    assert 0.02 - RESOLUTION_S <= gap_s < LONGEST_PAUSE_S


def test_a_host_that_only_lends_its_file_is_asked_for_nothing_else(hosts: Hosts) -> None:
    assert sorted(one.path for one in hosts.elsewhere.requests()) == ["/rules"]


def test_a_pattern_full_of_stars_holds_nobody_up(hosts: Hosts) -> None:
    assert hosts.asked("full of stars")[FULL_OF_STARS] == 1


def test_every_url_of_them_is_accounted_for(hosts: Hosts) -> None:
    now = hosts.ledger
    assert now["balance"] == 0
    assert [now[name] for name in ("queued", "delayed", "leased", "dead")] == [0, 0, 0, 0]
    ruled = len(RULING) + 1
    assert now["done"] == len(ALLOWING) * 4 + ruled * 3 + 1
    assert now["filtered"]["robots"] == ruled
    assert now["filtered"]["robots_unreachable"] == len(UNREACHABLE)


def test_who_asks_why_is_told_what_robots_txt_says(hosts: Hosts) -> None:
    for name in ("plain", BORROWING):
        told = hosts.told[name]
        assert (told["state"], told["reason"]) == ("filtered", "robots")
        assert "robots.txt of its host disallows it" in told["text"]
    assert hosts.told["500"]["reason"] == "robots_unreachable"


# Hosts whose robots.txt is that of another


class Borrowers:
    """Many hosts that lead to one; one that leads to a host whose pages are spent, and one that
    leads to a host that is given up, both only after they are."""

    LATE = "<a href={0}/a>x</a><a href={0}/b>x</a>"

    def __init__(self, stack: ExitStack) -> None:
        def origin(routes: Mapping[str, Route], number: int) -> Origin:
            return stack.enter_context(Origin(site(routes), address=f"127.0.9.{number}"))

        def leading(to: str) -> dict[str, Route]:
            return {"/robots.txt": moved(to)}

        self.lender = origin({"/robots.txt": rules(NO_A)}, 1)
        to_lender = leading(self.lender.url("/robots.txt"))
        self.many = [origin(to_lender, number) for number in range(100, 112)]
        self.down = origin({"/": Reply(500)}, 2)
        self.behind_down = origin(leading(self.down.url("/rules")), 3)
        self.spent = origin({"/": self._late, "/rules": rules(NO_A)}, 4)
        self.behind_spent = origin(leading(self.spent.url("/rules")), 5)

    def _late(self, _: Request) -> Reply:
        wait_for(lambda: len(self.down.requests()) > 2, "a host to fail", 30)
        hosts = (self.behind_down.url(""), self.behind_spent.url(""))
        return Reply(body="".join(map(self.LATE.format, hosts)).encode())

    @property
    def seeds(self) -> str:
        pages = [one.url("/b") for one in self.many]
        return ",".join([*pages, self.down.url("/"), self.spent.url("/")])


@pytest.fixture(scope="module")
def borrowers(
    tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer
) -> Iterator[Borrowers]:
    with redis_process.client() as client:
        client.flushall()
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(tmp_path_factory.mktemp("lent"), redis_process.url))
        found = Borrowers(stack)
        settings = {**SETTINGS, "POLITENESS_GIVE_UP": "2", "DOWNLOAD_TIMEOUT": "60"}
        for _ in range(2):
            fleet.start(settings, seeds=found.seeds, delay=0.1, pages_per_host=1, scope="any")
        assert fleet.wait() == ["finished"] * 2
        fleet.assert_settled()
        yield found


def test_a_file_that_many_hosts_lead_to_is_fetched_once(borrowers: Borrowers) -> None:
    assert [one.path for one in borrowers.lender.requests()] == ["/robots.txt"]
    for origin in borrowers.many:
        assert [one.path for one in sorted(origin.requests())] == ["/robots.txt", "/b"]


def test_a_host_whose_pages_are_spent_lends_its_rules_all_the_same(borrowers: Borrowers) -> None:
    asked = [one.path for one in sorted(borrowers.spent.requests())]
    assert asked == ["/robots.txt", "/", "/rules"]
    asked = [one.path for one in sorted(borrowers.behind_spent.requests())]
    assert asked == ["/robots.txt", "/b"]


def test_a_host_whose_rules_are_at_one_that_is_given_up_gets_no_page(borrowers: Borrowers) -> None:
    assert [one.path for one in borrowers.behind_down.requests()] == ["/robots.txt"]


# Crawls of their own


def paths(origin: Origin) -> set[str]:
    return {request.path for request in origin.requests()}


@pytest.mark.also_plain
def test_a_delay_from_another_host_is_kept_from_the_first_page_on(fleet: Fleet) -> None:
    """Long enough that no first page would come that late by itself."""
    delay_s = 8
    slow = Origin({"/rules": rules(f"User-agent: *\nCrawl-delay: {delay_s}".encode())})
    with slow, Origin({"/robots.txt": moved(slow.url("/rules")), "/": Reply()}) as origin:
        settings = {**SETTINGS, "POLITENESS_LONGEST_PAUSE": "60"}
        fleet.start(settings, seeds=origin.url("/"), delay=0.02)
        assert fleet.wait() == ["finished"]
    asked, page = sorted(origin.requests())
    assert (asked.path, page.path) == ("/robots.txt", "/")
    assert page.start_s - asked.end_s >= delay_s - RESOLUTION_S
    fleet.assert_settled()


def test_each_port_has_a_file_of_its_own(fleet: Fleet) -> None:
    strict, open_to_all = site({"/robots.txt": rules(NO_A)}), site({})
    with Origin(strict) as one, Origin(open_to_all) as other:
        assert one.host != other.host
        fleet.start(SETTINGS, seeds=f"{one.url()},{other.url()}", delay=0.02)
        assert fleet.wait() == ["finished"]
    assert paths(one) == PAGES - {"/a"} | {"/robots.txt"}
    assert paths(other) == PAGES | {"/robots.txt"}
    fleet.assert_settled()


def test_who_does_not_obey_robots_txt_does_not_even_ask_for_it(fleet: Fleet) -> None:
    with Origin(site({"/robots.txt": rules(b"User-agent: *\nDisallow: /\n")})) as origin:
        fleet.start({**SETTINGS, "ROBOTSTXT_OBEY": "False"}, seeds=origin.url(), delay=0.02)
        assert fleet.wait() == ["finished"]
    assert paths(origin) == PAGES
    assert fleet.status()["filtered"] == {}
    fleet.assert_settled()


def test_many_pages_of_an_unreachable_host_cost_no_further_request(fleet: Fleet) -> None:
    """Three connections and a hundred pages wait while the file is being retried."""
    with Origin(site({"/robots.txt": Reply(500, delay_s=0.2)})) as origin:
        seeds = ",".join(origin.url(f"/?{number}") for number in range(100))
        for _ in range(3):
            fleet.start(SETTINGS, seeds=seeds, delay=0.02, per_host=3)
        assert fleet.wait() == ["finished"] * 3
    assert [request.path for request in origin.requests()] == ["/robots.txt"] * ATTEMPTS
    assert fleet.status()["filtered"] == {"robots_txt": 1, "robots_unreachable": 100}
    fleet.assert_settled()


def test_an_override_lets_one_host_go_without_robots_txt(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    routes = {"/": Reply(body=b"<a href=/private>p</a>"), "/private": Reply(body=b"secret")}
    routes["/robots.txt"] = Reply(body=b"User-agent: *\nDisallow: /private")
    with Origin(routes) as origin, Fleet(tmp_path, redis_server.url) as fleet:
        table = '{"127.0.0.1": {"obey_robots": false}}'
        worker = fleet.start({"POLITENESS_OVERRIDES": table}, seeds=origin.url("/"), delay=0)
        assert worker.wait() == "finished"
        assert [one.path for one in origin.requests()] == ["/", "/private"]


def test_a_host_whose_rules_have_expired_is_asked_anew_while_its_pages_wait_in_peace(
    fleet: Fleet, redis: Redis
) -> None:
    pages = 80
    links = "".join(f"<a href=/{number}>x</a>" for number in range(pages)).encode()
    routes: dict[str, Route] = {f"/{number}": Reply() for number in range(pages)}
    routes |= {"/": Reply(body=links), "/robots.txt": rules(NO_A)}
    with Origin(routes) as origin:
        first = fleet.start(SETTINGS, seeds=origin.url("/"), delay=0.05)
        wait_for(lambda: fleet.status()["done"] > 5, "some pages", 60)
        first.signal(signal.SIGINT)
        assert first.wait() == "shutdown"
        left = fleet.status()["queued"]
        assert left > pages / 2
        assert redis.delete(keys.robots("site", 0, origin.url("")))
        leases_before = int(redis.hget(keys.meta("site", 0), "tokens"))
        assert fleet.start(SETTINGS, delay=0.05).wait() == "finished"
        log = sorted(origin.requests())
    _, again = (number for number, request in enumerate(log) if request.path == "/robots.txt")
    assert log[again].start_s - log[again - 1].end_s < ASKED_S
    leases = int(redis.hget(keys.meta("site", 0), "tokens")) - leases_before
    assert leases < left + pages
    fleet.assert_settled()
