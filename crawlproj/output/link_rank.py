"""The importance of a crawl's pages, by the links among them: PageRank and harmonic centrality.

The graph is that of the pages fetched: links to what was not fetched do not count, nor does a link
of a page to itself, and several links from one page to another are one. Numbers of pages and links
go to igraph, 16 bytes a link and twice as much inside; URLs stay in the database. Harmonic
centrality takes a walk over the whole graph from every page; for a large graph some are drawn.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.output.tables import Tables

if TYPE_CHECKING:
    from igraph import Graph

DAMPING = 0.85
MOST_STEPS = 2_000_000_000
"""Links times pages up to which all walks are made: some ten seconds."""
DRAWN = 200
"""Pages from which walks are made in a larger graph."""
SEED = 1
"""The same graph gives the same figures."""


class NoLinks(CrawlError):
    """A crawl that kept no links."""


class RankedPage(NamedTuple):
    """A page of a crawl; the fields are the columns of what is written."""

    url: str
    pagerank: float
    harmonic: float
    in_links: int


class Ranks(NamedTuple):
    """What is known of each page, by its number."""

    pagerank: Sequence[float]
    harmonic: Sequence[float]
    in_links: Sequence[int]
    links: int
    is_exact: bool
    """False if harmonic centrality is estimated from some pages."""


def rank(tables: Tables) -> Ranks:
    """Rank the pages of a crawl; they are numbered in the table `ranked_urls` from then on."""
    graph = _graph_of(tables)
    pages, links = graph.vcount(), graph.ecount()
    is_exact = pages * links <= MOST_STEPS
    harmonic = _harmonic(graph) if is_exact else _estimated(graph, DRAWN)
    pagerank = graph.pagerank(damping=DAMPING)
    return Ranks(pagerank, harmonic, graph.indegree(), links, is_exact)


def ranked_pages(tables: Tables, ranks: Ranks, most: int | None = None) -> Iterator[RankedPage]:
    """The pages, the most important first, all or so many of them."""
    order = sorted(range(len(ranks.pagerank)), key=lambda page: -ranks.pagerank[page])[:most]
    for start in range(0, len(order), 1000):
        some = order[start : start + 1000]
        marks = ", ".join("?" * len(some))
        sql = f"SELECT number, url FROM ranked_urls WHERE number IN ({marks})"
        urls = dict(tables.ask(sql, some))
        for page in some:
            figures = ranks.pagerank[page], ranks.harmonic[page], ranks.in_links[page]
            yield RankedPage(urls[page], *figures)


def _graph_of(tables: Tables) -> Graph:
    igraph = _igraph()
    tables.make_for("pages, links")
    tables.ask(
        "CREATE OR REPLACE TEMP TABLE ranked_urls AS SELECT url, "
        "row_number() OVER (ORDER BY url) - 1 AS number FROM (SELECT DISTINCT url FROM pages)"
    )
    [(pages,)] = tables.ask("SELECT count(*) FROM ranked_urls")
    ends = array("q")
    for link in tables.each(
        "SELECT DISTINCT source_page.number, target_page.number FROM links "
        "JOIN ranked_urls AS source_page ON source_page.url = links.source "
        "JOIN ranked_urls AS target_page ON target_page.url = links.target "
        "WHERE source_page.number <> target_page.number ORDER BY ALL"
    ):
        ends.extend(link)
    if not ends:
        raise NoLinks("No links among the pages of this crawl: crawl with -a links=true")
    pairs = memoryview(ends).cast("B").cast("q", shape=[len(ends) // 2, 2])
    found: Graph = igraph.Graph(n=pages, edges=pairs, directed=True)
    return found


def _igraph() -> Any:
    try:
        import igraph
    except ImportError:
        raise ConfigError(
            "rank: needs a package that is not installed: pip install 'crawlproj[rank]'"
        ) from None
    return igraph


def _harmonic(graph: Graph) -> list[float]:
    """The mean of 1 / the number of links on the way from each other page."""
    found: list[float] = graph.harmonic_centrality(mode="in")
    return [0.0 if isnan(one) else one for one in found]


def _estimated(graph: Graph, drawn: int) -> list[float]:
    """The same from some of the other pages, drawn at random."""
    pages = graph.vcount()
    sources = random.Random(SEED).sample(range(pages), min(drawn, pages))
    sums = array("d", bytes(8 * pages))
    for source in sources:
        [distances] = graph.distances(source=source, mode="out")
        for page, distance in enumerate(distances):
            if 0 < distance < pages:
                sums[page] += 1 / distance
    return [one / len(sources) for one in sums]
