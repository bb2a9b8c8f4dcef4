"""One pace for all hosts of a domain or an address, and one page budget: judged at the origin."""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from crawlproj.operate.audit import RESOLUTION_S, smallest_slot_gap_s
from crawlproj.operate.request_log import Logged, most_concurrent
from crawlproj.urls import registrable_domain
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request

DELAY_S = 0.1
PAGES = 4
DOMAINS = ("shop.example", "news.example")
NAMES = [f"{name}.{domain}" for domain in DOMAINS for name in ("a", "b", "c")]


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    """All names there are, behind a proxy: no name server is needed to tell them apart."""
    with Origin({}, default=page) as origin:
        monkeypatch.setenv("http_proxy", origin.url(""))
        yield origin


def page(request: Request) -> Reply:
    """Each host has some pages, all of them linked from its front page."""
    path = urlsplit(request.path).path
    if path == "/robots.txt":
        return Reply(headers={"Content-Type": "text/plain"}, body=b"User-agent: *\nDisallow:\n")
    links = "".join(f"<a href=/{number}>x</a>" for number in range(1, PAGES))
    return Reply(body=links.encode() if path == "/" else b"hello", delay_s=0.02)


def farm(request: Request) -> Reply:
    """Whatever is asked for has a page that links to hosts which nobody has heard of."""
    if request.path.endswith("/robots.txt"):
        return Reply(status=404)
    links = (f"<a href=http://{secrets.token_hex(4)}.farm.example/>x</a>" for _ in range(10))
    return Reply(body="".join(links).encode())


def by_domain(log: list[Logged]) -> dict[str, list[Logged]]:
    """What a proxy has seen, by the registrable domain that it was asked for."""
    found: defaultdict[str, list[Logged]] = defaultdict(list)
    for request in sorted(log):
        domain = registrable_domain(f"http://{urlsplit(request.path).netloc}")
        found[domain].append(request._replace(host=domain))
    return found


def assert_one_pace(log: list[Logged], delay_s: float = DELAY_S) -> None:
    gap_s = smallest_slot_gap_s(log)
    assert gap_s is not None
    assert gap_s >= delay_s - RESOLUTION_S
    assert set(most_concurrent(log).values()) == {1}


def test_hosts_of_a_domain_keep_one_pace_with_several_workers(fleet: Fleet, proxy: Origin) -> None:
    seeds = ",".join(f"http://{name}/" for name in NAMES)
    for _ in range(3):
        fleet.start({"POLITENESS_GROUP": "domain"}, seeds=seeds, delay=DELAY_S)
    assert fleet.wait() == ["finished"] * 3
    found = by_domain(proxy.requests())
    assert found.keys() == set(DOMAINS)
    for log in found.values():
        assert len(log) == 3 * (PAGES + 1)
        assert_one_pace(log)
    first: dict[str, str] = {}
    for request in sorted(proxy.requests()):
        asked = urlsplit(request.path)
        first.setdefault(asked.netloc, asked.path)
    assert first == dict.fromkeys(NAMES, "/robots.txt")
    assert fleet.status()["balance"] == 0


@pytest.mark.parametrize("shards", [1, 3])
def test_a_domain_gets_exactly_its_pages_on_any_number_of_shards(
    fleet: Fleet, proxy: Origin, shards: int
) -> None:
    seeds = ",".join(f"http://{name}/" for name in NAMES)
    for _ in range(2):
        settings = {"FRONTIER_SHARDS": shards}
        fleet.start(settings, seeds=seeds, delay=0, per_host=2, pages_per_domain=5)
    assert fleet.wait() == ["finished"] * 2
    done = Counter(registrable_domain(url[: url.index("/", 8)]) for url in fleet.urls())
    assert done == dict.fromkeys(DOMAINS, 5)
    now = fleet.status()
    assert (now["done"], now["balance"]) == (10, 0)
    assert now["filtered"]["domain_limit"] > 0


def test_a_farm_of_subdomains_is_left_after_its_budget(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Origin({}, default=farm) as origin:
        monkeypatch.setenv("http_proxy", origin.url(""))
        for _ in range(2):
            fleet.start(seeds="http://farm.example/", scope="domain", delay=0, pages_per_domain=20)
        assert fleet.wait() == ["finished"] * 2
    now = fleet.status()
    assert (now["done"], now["balance"]) == (20, 0)
    assert now["filtered"]["domain_limit"] >= 180 - 20


def test_hosts_of_an_address_keep_one_pace_from_their_first_request_on(fleet: Fleet) -> None:
    with ExitStack() as stack:
        addresses = ("127.0.9.91", "127.0.9.91", "127.0.9.91", "127.0.9.92")
        origins = [stack.enter_context(Origin({}, default=page, address=one)) for one in addresses]
        for _ in range(3):
            seeds = ",".join(origin.url() for origin in origins)
            fleet.start({"POLITENESS_GROUP": "address"}, seeds=seeds, delay=DELAY_S)
        assert fleet.wait() == ["finished"] * 3
    shared = [one._replace(host="it") for origin in origins[:3] for one in origin.requests()]
    assert len(shared) == 3 * (PAGES + 1)
    assert_one_pace(shared)
    assert_one_pace(origins[3].requests())
    assert fleet.status()["balance"] == 0


def test_a_host_without_an_address_fails_as_it_would_have(fleet: Fleet) -> None:
    with Origin({}, default=page) as origin:
        settings = {"POLITENESS_GROUP": "address", "FRONTIER_MAX_ATTEMPTS": 1}
        fleet.start(settings, seeds=f"http://nowhere.invalid/,{origin.url()}", delay=0)
        assert fleet.wait() == ["finished"]
    assert len(origin.requests()) == PAGES + 1
    assert fleet.status()["filtered"]["robots_unreachable"] == 1
