"""Importance: how much of a web's PageRank each strategy has fetched after a tenth of its pages,
and after three tenths.

    python -m benchmarks.importance

The frontier's real scripts on a real Redis decide what is fetched next; pages come from a graph in
memory, of which the PageRank is known: the links of a documentation package, the dependencies of
Debian's packages, and a made web whose in-links follow a power law. `best` fetches of what it has
found what has the most PageRank, which no crawler can know: no order does much better.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import re
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple
from urllib.parse import urldefrag, urljoin

import redis

from benchmarks import environments, rounds
from benchmarks.common import Row, empty, redis_cpu_s
from benchmarks.static import read
from crawlproj.discover.ranking import STRATEGIES, Candidate, opic, ranked_by_scripts
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.levels import level, priority_of
from crawlproj.frontier.messages import Kind, Push, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.records import encode_link, summarise
from crawlproj.server import connection
from crawlproj.urls import Url
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer

DOCUMENTATION = "llvm-16-doc"
HOST = "http://graph.example"
LEASED_AT_ONCE = 16
"""Pages under way at a time: their links come after all of them were chosen."""
DAMPING = 0.85
ITERATIONS = 50
BEST = "best"
_HREF = re.compile(rb"""<a\b[^>]*?\bhref\s*=\s*["']([^"'>]+)""", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")

Graph = list[list[int]]
"""Of each page the pages that it links to, each once; the first is the seed."""


class Case(NamedTuple):
    """A graph and a strategy."""

    graph: str
    strategy: str

    def __str__(self) -> str:
        return f"{self.graph}, {self.strategy}"


# Graphs


def reachable(links: Sequence[Sequence[int]], seed: int, most: int) -> Graph:
    """What can be reached from a page, so many pages at most, numbered in that order."""
    number, waiting = {seed: 0}, deque([seed])
    while waiting:
        for target in links[waiting.popleft()]:
            if target not in number and len(number) < most:
                number[target] = len(number)
                waiting.append(target)
    return [
        [number[target] for target in dict.fromkeys(links[page]) if target in number]
        for page in number
    ]


def documentation(most: int) -> Graph:
    folder = environments.package(DOCUMENTATION)
    pages = read(folder) if folder else {}
    names = {path: number for number, path in enumerate(pages)}
    links = [
        [names[to] for to in _targets(path, body) if to in names and to != path]
        for path, body in pages.items()
    ]
    seeds = [number for path, number in names.items() if path.endswith("/html/index.html")]
    return reachable(links, seeds[0], most) if seeds else []


def _targets(path: str, body: bytes) -> Iterator[str]:
    for href in _HREF.findall(body):
        yield urldefrag(urljoin(path, href.decode(errors="replace"))).url


def packages(most: int) -> Graph:
    """Packages of Debian and what they depend on, recommend and suggest. The seed names one in a
    hundred, as a list of popular ones might."""
    command = ["apt-cache", "dumpavail"]
    dump = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    needs: dict[str, list[str]] = {}
    name = ""
    for line in dump.splitlines():
        field, _, value = line.partition(": ")
        if field == "Package":
            name = value
            needs.setdefault(name, [])
        elif field in ("Depends", "Recommends", "Suggests"):
            needs[name] += [one for part in value.split(",") if (one := _package(part))]
    names = {one: number for number, one in enumerate(needs, 1)}
    links = [[names[to] for to in all_ if to in names] for all_ in needs.values()]
    seed = random.Random(1).sample(range(1, len(names) + 1), len(names) // 100)
    return reachable([seed, *links], 0, most) if names else []


def _package(text: str) -> str:
    found = _NAME.match(text.strip())
    return found[0] if found else ""


def made(most: int) -> Graph:
    """A page links to some that are linked to already, the more the likelier, and to some at
    random."""
    dice = random.Random(1)
    links: list[list[int]] = [[] for _ in range(most)]
    named = [0]
    for page in range(1, most):
        links[dice.choice(named)].append(page)
        targets = [dice.choice(named) for _ in range(6)] + [dice.randrange(page) for _ in range(2)]
        links[page] += targets
        named += [page, *targets]
    return reachable(links, 0, most)


GRAPHS = {"documentation": documentation, "packages": packages, "made": made}


def pagerank(graph: Graph) -> list[float]:
    """By iteration; pages without links lead everywhere."""
    count = len(graph)
    rank = [1 / count] * count
    for _ in range(ITERATIONS):
        lost = sum(rank[page] for page in range(count) if not graph[page])
        after = [(1 - DAMPING + DAMPING * lost) / count] * count
        for page, targets in enumerate(graph):
            for target in targets:
                after[target] += DAMPING * rank[page] / len(targets)
        rank = after
    return rank


# Crawls


def best_order(graph: Graph, rank: Sequence[float]) -> list[int]:
    found, waiting, order = {0}, [(-rank[0], 0)], []
    while waiting:
        _, page = heapq.heappop(waiting)
        order.append(page)
        for target in graph[page]:
            if target not in found:
                found.add(target)
                heapq.heappush(waiting, (-rank[target], target))
    return order


async def crawl(url: str, graph: Graph, name: str) -> list[int]:
    """The pages in the order in which the frontier gave them out."""
    strategy = STRATEGIES[name]
    frontier = Frontier(await connection.connect(url), "bench", "worker")
    await frontier.open(
        Plan(strategy=name, novelty=ranked_by_scripts(strategy), per_host=LEASED_AT_ONCE), "bench"
    )
    await frontier.renew(600_000, {})
    await push_all(frontier, [_push(Kind.SEED, 0, 0, level(strategy(_candidate(0, 0))))])
    order: list[int] = []
    while leases := (await frontier.lease(LEASED_AT_ONCE)).leases:
        for lease in leases:
            found = summarise(lease.host, lease.entry)
            page, depth = int(found.url.rpartition("/")[2]), found.depth
            order.append(page)
            share = opic.share(priority_of(lease.level), len(graph[page]))
            pushes = []
            for to in graph[page]:
                candidate = _candidate(to, depth + 1, lease.host_pages, share)
                pushes.append(_push(Kind.LINK, to, depth + 1, level(strategy(candidate))))
            if pushes:
                await push_all(frontier, pushes)
        await frontier.settle([(lease.shard, Settlement(lease.token, "done")) for lease in leases])
    await frontier.client.aclose()
    return order


def _candidate(page: int, depth: int, pages: int = 0, share: float = 1.0) -> Candidate:
    return Candidate(Url(HOST, f"/{page}"), depth, pages, share)


def _push(kind: Kind, page: int, depth: int, at: float) -> Push:
    path = f"/{page}"
    return Push(kind, HOST, at, encode_link(path, depth), f"{HOST}{path}")


# What they are worth


@cache
def known(name: str, most: int) -> tuple[Graph, list[float]]:
    graph = GRAPHS[name](most)
    return graph, pagerank(graph) if graph else []


def measure(most: int, server: RedisServer, client: redis.Redis, case: Case) -> Iterator[Row]:
    graph, rank = known(case.graph, most)
    empty(client)
    before_s = redis_cpu_s(client)
    if case.strategy == BEST:
        order = best_order(graph, rank)
    else:
        order = asyncio.run(crawl(server.url, graph, case.strategy))
    assert sorted(order) == list(range(len(graph)))

    def mass(share: float) -> float:
        return sum(rank[page] for page in order[: round(share * len(order))])

    yield {
        "graph": case.graph,
        "strategy": case.strategy,
        "pages": len(graph),
        "links": sum(map(len, graph)),
        "rank_after_10_percent": mass(0.1),
        "rank_after_30_percent": mass(0.3),
        "redis_us_a_link": 1e6 * (redis_cpu_s(client) - before_s) / sum(map(len, graph)),
    }


def main() -> None:
    parser = rounds.parser("importance", __doc__)
    parser.add_argument("--pages", type=int, default=3000, help="at most, of a graph [3000]")
    options = parser.parse_args()
    graphs = [name for name in GRAPHS if known(name, options.pages)[0]]
    cases = [Case(graph, strategy) for graph in graphs for strategy in (*STRATEGIES, BEST)]

    def measure_case(server: RedisServer, client: redis.Redis, case: Case) -> Iterator[Row]:
        return measure(options.pages, server, client, case)

    rounds.run("importance", options, cases, measure_case, by=["graph", "strategy"])


if __name__ == "__main__":
    main()
