"""The share of the possible rate that one worker reaches at a pause of one second a host.

Where that would be more pages a second than one worker can fetch, the pause is longer: ten
thousand hosts show what a long line of resting hosts costs, not how fast a core is.

Possible is one request a host in every pause plus the time that the origin itself takes to answer,
by the origin's own log: whatever the worker adds between the end of a pause and the next request
is lost. A host that is asked less than twice counts as asked once in the whole time. Where a core
is busy all the time, it is the core that limits, not the pace.

With `--tls` each host is asked over TLS, by nginx, which says how many handshakes a page took and
how many of them resumed a session; `--keep-alive` is how long it keeps a connection that rests.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import redis

from benchmarks import rounds
from benchmarks.common import Row, numbers
from benchmarks.fleet import WARM_UP_S, crawl_at
from benchmarks.tls_hosts import TlsHosts
from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import Logged, smallest_gap_s
from tests.servers.redis import RedisServer


def web(hosts: int, options: argparse.Namespace) -> WebSpec:
    """Small pages, and more of them on each host than can be asked for in the time."""
    each = int(time_of(hosts, options).all_s / pause_s(hosts, options)) + 10
    return WebSpec(
        hosts=hosts,
        pages=hosts * each,
        depth=2,
        nav_links=1,
        content_links=each,
        page_bytes=2_000,
        latency_s=options.latency,
    ).smooth()


class Time(NamedTuple):
    """Until every host has been asked, and then that is measured."""

    warm_up_s: float
    measured_s: float

    @property
    def all_s(self) -> float:
        return self.warm_up_s + self.measured_s


def pause_s(hosts: int, options: argparse.Namespace) -> float:
    return max(options.pause, hosts / options.most_per_s)


def time_of(hosts: int, options: argparse.Namespace) -> Time:
    """Every host has several turns in it, however long its pause is. Over TLS all workers have met
    nearly all hosts before: first handshakes are not what is measured."""
    pause = pause_s(hosts, options)
    turns = 4 * options.workers if options.tls else 1.5
    return Time(max(WARM_UP_S, turns * pause), max(options.seconds, 3 * pause))


def measure(
    options: argparse.Namespace, server: RedisServer, client: redis.Redis, hosts: int
) -> Iterator[Row]:
    pause, time = pause_s(hosts, options), time_of(hosts, options)
    settings = {"POLITENESS_DELAY": pause, "CONCURRENT_REQUESTS": options.concurrency}
    with origin(hosts, options) as serving:
        if isinstance(serving, TlsHosts):
            settings["CRAWL_CA_FILE"] = serving.authority
        ran, everything = crawl_at(
            serving,
            server,
            client,
            workers=options.workers,
            seconds=time.measured_s,
            warm_up_s=time.warm_up_s,
            profile="default",
            settings=settings,
        )
        made = handshakes(serving, ran.pages)
    turn_s = pause + usual_s(ran.pages)
    yield {
        "hosts": hosts,
        "pause_s": pause,
        "pages_per_s": ran.pages_per_s,
        "possible_per_s": hosts / turn_s,
        "share": turn_s / mean_turn_s(ran.pages, hosts, ran.seconds),
        "smallest_gap_s": min(smallest_gap_s(everything).values()),
        **made,
        **ran.costs(),
    }


def origin(hosts: int, options: argparse.Namespace) -> DemoServer | TlsHosts:
    if not options.tls:
        return DemoServer(web(hosts, options))
    pages_each = int(time_of(hosts, options).all_s / pause_s(hosts, options)) + 10
    return TlsHosts(hosts, pages_each, options.keep_alive)


def handshakes(serving: DemoServer | TlsHosts, pages: Sequence[Logged]) -> Row:
    """What a page took of them, where there are any."""
    if not isinstance(serving, TlsHosts):
        return {}
    made = serving.handshakes(pages)
    count = len(pages)
    return {"handshakes_per_page": made.all / count, "resumed_per_page": made.resumed / count}


def usual_s(pages: Sequence[Logged]) -> float:
    """How long the origin took for a page."""
    return sum(page.end_s - page.start_s for page in pages) / len(pages)


def mean_turn_s(pages: Sequence[Logged], hosts: int, seconds: float) -> float:
    """From one request to a host to the next. Counting pages would be less exact: hosts whose
    turns coincide fall into the stretch, or out of it, all together."""
    starts: defaultdict[str, list[float]] = defaultdict(list)
    for page in pages:
        starts[page.host].append(page.start_s)
    asked = [times for times in starts.values() if len(times) > 1]
    starved = hosts - len(asked)
    spent_s = sum(max(times) - min(times) for times in asked) + starved * seconds
    return spent_s / (sum(len(times) - 1 for times in asked) + starved)


def main() -> None:
    parser = rounds.parser("polite", __doc__)
    add = parser.add_argument
    hosts = [10, 100, 500, 1000, 10_000]
    add("--hosts", type=numbers, default=hosts, help="[10,100,500,1000,1e4]")
    add("--pause", type=float, default=1.0, help="seconds, or longer for very many hosts [1]")
    add("--most-per-s", type=int, default=1000, help="pages that a worker can fetch [1000]")
    add("--latency", type=float, default=0.005, help="of the origin, seconds [0.005]")
    add("--seconds", type=float, default=12.0, help="measured [12]")
    add("--concurrency", type=int, default=64, help="requests of a worker at a time [64]")
    add("--workers", type=int, default=1, help="[1]")
    add("--tls", action="store_true", help="over TLS, by nginx")
    add("--keep-alive", type=float, default=75.0, help="of nginx, in seconds [75]")
    options = parser.parse_args()
    rounds.run("polite", options, options.hosts, partial(measure, options), by=["hosts"])


if __name__ == "__main__":
    main()
