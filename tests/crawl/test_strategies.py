"""In which order a small graph is fetched under each strategy, worked out by hand; at the origin.

One worker with one connection to one host: a page's links are in the frontier before the next page
is leased, so the order at the origin is the frontier's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest

from tests.servers.fleet import PROJECT, Fleet
from tests.servers.origin import Origin, Reply

LONG = "/" + "l" * 100
QUERY = "/?q=" + "q" * 51


def fetched(
    fleet: Fleet,
    graph: Mapping[str, Sequence[str]],
    env: dict[str, str] | None = None,
    **args: str,
) -> list[str]:
    """The pages of a graph, from / on, in the order in which the origin was asked for them."""
    names = {name for links in graph.values() for name in links} | {"/"}
    routes = {name: Reply(body=_links(graph.get(name, ()))) for name in names}
    with Origin(routes) as origin:
        settings = {"ROBOTSTXT_OBEY": "False", "CRAWL_MEDIA": "True"}
        fleet.start(settings, env=env, seeds=origin.url(), delay="0", **args)
        assert fleet.wait() == ["finished"]
    return [request.path for request in sorted(origin.requests())]


def _links(names: Sequence[str]) -> bytes:
    return "".join(f'<a href="{name}">x</a>' for name in names).encode()


def test_breadth_is_first_come_first_served(fleet: Fleet) -> None:
    """/ brings a, b, c; then a brings d, which waits behind b and c; b brings e, which is behind d.
    That c brings d again changes nothing."""
    graph = {"/": ["/a", "/b", "/c"], "/a": ["/d"], "/b": ["/e"], "/c": ["/d", "/f"]}
    order = ["/", "/a", "/b", "/c", "/d", "/e", "/f"]
    assert fetched(fleet, graph, strategy="breadth") == order


def test_weighted_goes_by_depth_and_by_what_a_url_looks_like(fleet: Fleet) -> None:
    """100, less 10 a link away from the seed, and 5 more while the host has fewer than 10 pages.

    | link        | depth |                       | score |
    |-------------|-------|-----------------------|-------|
    | /pic.jpg    | 1     | media −20             | 75    |
    | /?q=…       | 1     | query over 50: −10    | 85    |
    | /lll…       | 1     | URL over 100: −5      | 90    |
    | /a          | 1     |                       | 95    |
    | /b, /c      | 2     | found on /a           | 85    |
    | /d          | 3     | found on /b           | 75    |

    a comes first. It brings b and c, which are worth as much as the query and wait behind it; d
    is worth as much as the picture, which came first.
    """
    graph = {"/": ["/pic.jpg", QUERY, LONG, "/a"], "/a": ["/b", "/c"], "/b": ["/d"]}
    order = ["/", "/a", LONG, QUERY, "/b", "/c", "/pic.jpg", "/d"]
    assert fetched(fleet, graph, strategy="weighted") == order


def test_novelty_raises_queued_pages_by_the_links_to_them(fleet: Fleet) -> None:
    """1 for each time that a link was found; what the host adds is the same for all.

    / brings a, b, c, d with 1 each. a is first; it names d and c, which rise to 2 in this order.
    d is next; it names b, which rises to 2, behind c. c brings e with 1. Then b, then e.
    """
    graph = {"/": ["/a", "/b", "/c", "/d"], "/a": ["/d", "/c"], "/d": ["/b"], "/c": ["/e"]}
    order = ["/", "/a", "/d", "/c", "/b", "/e"]
    assert fetched(fleet, graph, strategy="novelty") == order


def test_opic_fetches_next_what_has_been_given_the_most_cash(fleet: Fleet) -> None:
    """A page shares out 0.15 and 0.85 of what it was given, in steps of a quarter of a doubling.

    / gives a third to each of a, b and c. a is first, and gives 0.45 to d alone, which passes b and
    c, and gives 0.5 to h. Then b gives 0.22 to e and f each, and c as much to f and g: f has 0.45
    and passes e, which has waited longer.
    """
    graph = {
        "/": ["/a", "/b", "/c"],
        "/a": ["/d"],
        "/b": ["/e", "/f"],
        "/c": ["/f", "/g"],
        "/d": ["/h"],
    }
    order = ["/", "/a", "/d", "/h", "/b", "/c", "/f", "/e", "/g"]
    assert fetched(fleet, graph, strategy="opic") == order


RANKS = """
def fails_for_b(link):
    if link.url.path in ("/b", "/c"):
        raise LookupError("no rank for this one")
    return 10


def of_no_number(link):
    return link.url.path
"""


def test_a_link_for_which_a_strategy_fails_has_priority_0_and_is_fetched(fleet: Fleet) -> None:
    (fleet.folder / "ranks.py").write_text(RANKS)
    graph = {"/": ["/b", "/c", "/a"], "/a": ["/d"], "/b": ["/e"]}
    path = {"PYTHONPATH": os.pathsep.join([str(fleet.folder), str(PROJECT)])}
    order = fetched(fleet, graph, path, strategy="ranks.fails_for_b")
    assert order == ["/", "/a", "/d", "/b", "/e", "/c"]
    log = fleet.workers[0].log
    assert log.count("LookupError: no rank for this one") == 1
    assert "strategy=ranks.fails_for_b fails for" in log


@pytest.mark.parametrize("path", ["os.path.join", "ranks.of_no_number", "math.sqrt"])
def test_a_strategy_that_ranks_nothing_stops_the_start_in_one_line(fleet: Fleet, path: str) -> None:
    (fleet.folder / "ranks.py").write_text(RANKS)
    env = {"PYTHONPATH": os.pathsep.join([str(fleet.folder), str(PROJECT)])}
    worker = fleet.start(env=env, seeds="https://example.com", strategy=path)
    worker.wait()
    assert worker.process.returncode == 2
    assert f"strategy={path}: fails for https://example.com/ (" in worker.log
    assert "Traceback" not in worker.log
    assert fleet.status()["state"] == "empty"
