"""A page that one worker takes long over is fetched by another as well, and counts once."""

from __future__ import annotations

import csv

from crawlproj.operate.request_log import most_concurrent
from crawlproj.output import merge
from tests.servers.fleet import Fleet
from tests.servers.origin import Answer, Origin, Reply, Request

PAGES = 30
PER_HOST = 3
STUCK_S = 4.0
SETTINGS = {"FRONTIER_SPECULATE": True, "ROBOTSTXT_OBEY": False, "CONCURRENT_REQUESTS": 4}


def answer(request: Request) -> Answer:
    """A front page with links to the others; who asks for /stuck first has to wait."""
    if request.path == "/":
        links = [f"<a href=/{number}>x</a>" for number in range(PAGES)]
        return Reply(body="".join(["<a href=/stuck>x</a>", *links]).encode())
    is_stuck = request.path == "/stuck" and request.attempt == 1
    return Reply(body=b"<title>page</title>", delay_s=STUCK_S if is_stuck else 0.05)


def test_a_page_that_is_stuck_in_one_worker_is_fetched_by_another_and_counts_once(
    fleet: Fleet,
) -> None:
    with Origin({}, default=answer) as origin:
        for _ in range(2):
            fleet.start(SETTINGS, seeds=origin.url(), delay=0, per_host=PER_HOST)
        assert fleet.wait() == ["finished"] * 2
        first, second = sorted(one for one in origin.requests() if one.path == "/stuck")
        log = origin.requests()
    assert second.end_s < first.end_s
    assert most_concurrent(log)[origin.host] <= PER_HOST
    status = fleet.status()
    assert (status["done"], status["dead"], status["balance"]) == (PAGES + 2, 0, 0)
    assert (status["copies"], status["late"]) == (1, 1)
    [refused] = [row for row in fleet.rows("refused") if row["worker"]]
    folder = fleet.output / "site"
    merge.merge(folder, folder)
    with (folder / "pages.csv").open(encoding="utf-8", newline="") as file:
        merged = [row for row in csv.DictReader(file) if row["url"] == origin.url("/stuck")]
    written = [row for row in fleet.rows("pages") if row["url"] == origin.url("/stuck")]
    assert [row for row in written if row["worker"] != refused["worker"]] == merged
    assert len(written) == 2
