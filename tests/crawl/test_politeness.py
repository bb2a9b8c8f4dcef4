"""One pace per host for the whole fleet, whatever its hosts do: judged by their own log."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from crawlproj.demo.protocol import Connection, Reply, Request, make_reply
from crawlproj.demo.serve import listen
from crawlproj.operate.audit import RESOLUTION_S, Limits, audit, read_evidence, smallest_slot_gap_s
from crawlproj.operate.request_log import Logged, fetch_counts, most_concurrent
from tests.servers.fleet import Fleet, fleet
from tests.servers.origin import Origin
from tests.servers.origin import Reply as Page
from tests.servers.redis import RedisServer, wait_for

HTML = {"Content-Type": "text/html"}
HOSTS = 40
PAGES = 6
DELAY_S = 0.05
RETRY_AFTER_S = 1
POLITE = {"POLITENESS_BACKOFF": "0.3"}


@dataclass
class House:
    """What one host answers: its pages are /, /1, /2, …; those below /private/ are nobody's."""

    crawl_delay_s: float = 0.0
    latency_s: float = 0.0
    pages: int = PAGES
    slow: Mapping[str, float] = field(default_factory=dict)
    overloaded: Mapping[str, int] = field(default_factory=dict)
    """Pages that answer 503 the first time, and the Retry-After they send; 0 sends none."""
    _failed: set[str] = field(default_factory=set)

    @property
    def pause_s(self) -> float:
        return max(DELAY_S, self.crawl_delay_s)

    @cached_property
    def paths(self) -> set[str]:
        return {"/", *(f"/{number}" for number in range(1, self.pages))}

    def answer(self, request: Request) -> Reply:
        path = request.target
        if path == "/robots.txt":
            rules = f"User-agent: *\nCrawl-delay: {self.crawl_delay_s}\nDisallow: /private/\n"
            return make_reply(200, {}, (rules.encode(),), self.latency_s)
        if path in self.overloaded and path not in self._failed:
            self._failed.add(path)
            after = self.overloaded[path]
            return make_reply(503, {"Retry-After": str(after)} if after else {}, (), self.latency_s)
        if path not in self.paths:
            return make_reply(404, HTML)
        links = self.paths if path == "/" else {"/"}
        hrefs = "".join(f"<a href={link}>x</a>" for link in links)
        body = f"<title>{path}</title>{hrefs}<a href=/private/{path[1:]}>x</a>"
        return make_reply(200, HTML, (body.encode(),), self.slow.get(path, self.latency_s))


class Line(Connection):
    """A connection that can be cut."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.cut = cast(asyncio.Transport, transport).abort


class Town:
    """Hosts on loopback, each at an address of its own, and one log of all their requests."""

    def __init__(self, houses: list[House]) -> None:
        self._sockets = listen([f"127.0.9.{number + 1}" for number in range(len(houses))], 0)
        names = ["{}:{}".format(*bound.getsockname()) for bound in self._sockets]
        self.houses = dict(zip(names, houses, strict=True))
        self.log: list[Logged] = []
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._lines: list[Line] = []

    @property
    def seeds(self) -> str:
        return ",".join(f"http://{name}/" for name in self.houses)

    @contextmanager
    def open(self) -> Iterator[Town]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stopped.set)
            thread.join()

    def is_crawled(self, hosts: Iterable[str]) -> bool:
        """Whether they have been asked for all of their pages and for robots.txt."""
        asked = Counter(request.host for request in self.log)
        return all(asked[host] == self.houses[host].pages + 1 for host in hosts)

    def by_host(self) -> dict[str, list[Logged]]:
        requests: defaultdict[str, list[Logged]] = defaultdict(list)
        for request in sorted(self.log):
            requests[request.host].append(request)
        return requests

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        servers = [
            await self._loop.create_server(self._connections(name, house), sock=bound)
            for bound, (name, house) in zip(self._sockets, self.houses.items(), strict=True)
        ]
        await self._stopped.wait()
        for server in servers:
            server.close()
        for line in self._lines:
            line.cut()
        await asyncio.sleep(0)

    def _connections(self, name: str, house: House) -> Callable[[], Line]:
        def note(request: Request, status: int, end_s: float, peer: int) -> None:
            line = (name, request.method, request.target, status, peer, "")
            self.log.append(Logged(request.start_s, end_s, *line))

        def connect() -> Line:
            self._lines.append(Line(house.answer, note))
            return self._lines[-1]

        return connect


def make_house(number: int) -> House:
    crawl_delay_s = 0.1 + 0.05 * (number % 9)
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"latency_s": 0.08},
        {"slow": {"/2": 0.4}},
        {"overloaded": {"/2": RETRY_AFTER_S}},
        {"overloaded": {"/1": 0, "/3": 0}},
    )
    return House(crawl_delay_s, **kinds[number % len(kinds)])


def assert_settled(ships: Fleet) -> None:
    now = ships.status()
    assert now["balance"] == 0
    assert [now[name] for name in ("queued", "delayed", "leased")] == [0, 0, 0]


def too_short(town: Town, per_host: int = 1) -> dict[str, tuple[float, float]]:
    """Hosts that were left alone for less than their pause: the pause, and the gap."""
    found = {}
    for host, requests in town.by_host().items():
        gap_s = smallest_slot_gap_s(requests, per_host)
        pause_s = town.houses[host].pause_s
        if gap_s is not None and gap_s < pause_s - RESOLUTION_S:
            found[host] = pause_s, round(gap_s, 4)
    return found


def during_holds(town: Town) -> list[Logged]:
    """Requests that came while their host had asked to be left alone."""
    return [
        later
        for requests in town.by_host().values()
        for one in requests
        if one.status == 503 and (after_s := town.houses[one.host].overloaded[one.path])
        for later in requests
        if one.end_s < later.start_s < one.end_s + after_s
    ]


def assert_all_fetched(town: Town) -> None:
    """Every page, once more if it was overloaded; robots.txt first and once; nothing private."""
    wanted: Counter[str] = Counter()
    for host, house in town.houses.items():
        urls = house.paths | set(house.overloaded) | {"/robots.txt"}
        wanted.update(f"http://{host}{path}" for path in urls)
        wanted.update(f"http://{host}{path}" for path in house.overloaded)
    assert fetch_counts(town.log) == wanted
    first = {requests[0].path for requests in town.by_host().values()}
    assert first == {"/robots.txt"}


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_every_host_keeps_its_pace_with_any_number_of_workers(ships: Fleet, workers: int) -> None:
    with Town([make_house(number) for number in range(HOSTS)]).open() as town:
        for _ in range(workers):
            ships.start(POLITE, seeds=town.seeds, delay=DELAY_S)
        assert ships.wait() == ["finished"] * workers
    assert_all_fetched(town)
    assert too_short(town) == {}
    assert max(most_concurrent(town.log).values()) == 1
    assert during_holds(town) == []
    assert ships.status()["filtered"]["robots"] == HOSTS * PAGES
    assert_settled(ships)


def test_each_of_three_connections_keeps_the_pace(ships: Fleet) -> None:
    houses = [House(0.1 + 0.05 * (number % 5), latency_s=0.4, pages=9) for number in range(12)]
    with Town(houses).open() as town:
        for _ in range(3):
            ships.start(POLITE, seeds=town.seeds, delay=DELAY_S, per_host=3)
        assert ships.wait() == ["finished"] * 3
    assert_all_fetched(town)
    assert too_short(town, per_host=3) == {}
    assert max(most_concurrent(town.log).values()) == 3
    assert_settled(ships)


# Nobody waits longer than politeness demands, and Redis is not asked more often than needed


def script_calls(redis: Redis) -> int:
    """Calls of scripts that Redis has answered so far, whoever made them."""
    stats: Any = redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


def test_one_worker_reaches_the_rate_that_politeness_allows(ships: Fleet, redis: Redis) -> None:
    pause_s, hosts = 0.5, 60
    with Town([House(pages=12) for _ in range(hosts)]).open() as town:
        ships.start(seeds=town.seeds, delay=pause_s)
        wait_for(lambda: len(town.log) >= 3 * hosts, "a steady pace", 30)
        before = len(town.log), script_calls(redis)
        wait_for(lambda: len(town.log) >= 11 * hosts, "some seconds of it", 30)
        after = len(town.log), script_calls(redis)
        assert ships.wait() == ["finished"]
    requests, calls = (later - sooner for sooner, later in zip(before, after, strict=True))
    rates = [requests_a_second(log) for log in town.by_host().values()]
    # benchmarks.polite has the exact share; here it is enough that no turn is lost.
    assert sum(rates) >= 0.7 * hosts / pause_s
    assert calls / requests <= 0.5


def requests_a_second(log: list[Logged]) -> float:
    return (len(log) - 1) / (log[-1].end_s - log[0].end_s)


def test_a_slow_host_and_a_huge_one_delay_nobody_else(ships: Fleet, redis: Redis) -> None:
    pause_s, slow, huge = 0.4, House(latency_s=2, pages=50), House(pages=50_000)
    with Town([slow, huge, *(House(pages=8) for _ in range(50))]).open() as town:
        slow_seed, huge_seed, *seeds = town.seeds.split(",")
        ships.start(seeds=slow_seed, delay=pause_s)
        redis.lpush("site:start_urls", *(huge_seed + path[1:] for path in huge.paths))
        wait_for(lambda: ships.status()["queued"] > 49_000, "a long queue", 180)
        redis.lpush("site:start_urls", *seeds)
        hosts = list(town.houses)[2:]
        wait_for(lambda: town.is_crawled(hosts), "all other pages", 30)
        ships.workers[0].kill()
    log = town.by_host()
    assert all(requests_a_second(log[host][1:]) >= 0.6 / pause_s for host in hosts)


def test_the_rows_of_a_worker_say_the_same_of_its_pace_as_the_log_of_the_origin(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """A page that takes long to read is written down late, and the next one early."""
    laborious = b"<p>" + b"<a href=/a>a</a><a href=/b>b</a><b>x</b>" * 40_000
    routes = {"/": Page(body=laborious), "/a": Page(body=laborious), "/b": Page()}
    with Origin(routes) as origin, fleet(tmp_path, redis_server.url) as ships:
        worker = ships.start({"ROBOTSTXT_OBEY": "False"}, seeds=origin.url("/"), delay=DELAY_S)
        assert worker.wait() == "finished"
        [part] = (ships.output / "site").glob("pages-*.csv")
        with part.open(newline="") as rows:
            noted = read_evidence(part.name, rows).requests
        limits = Limits(DELAY_S)
        for log in (origin.requests(), noted):
            [host] = audit(log, limits)
            assert (host.requests, host.broken) == (3, ())
