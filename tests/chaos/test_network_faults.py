"""A network between worker and Redis that loses replies, is slow, or is not there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from crawlproj.frontier.scripts import script
from crawlproj.operate.request_log import fetch_counts
from tests.chaos.harness import PATIENT, trial
from tests.chaos.slow import AT_ONCE, PAGES, STEADY, SlowSite, start
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request, Route
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer, wait_for

REPEATED = ("renew", "reclaim", "push", "lease", "settle")
LOSSES = 3


def test_what_redis_has_done_is_not_done_again_when_its_reply_is_lost(tmp_path: Path) -> None:
    # Slow enough that there is something to lose until the last.
    with trial(tmp_path, delay_s=0.3) as crawl:
        proxy = crawl.proxy()
        workers = [crawl.start(through=proxy) for _ in range(2)]
        crawl.wait_for_pages(1)
        for name in REPEATED:
            lost = proxy.lost + LOSSES
            proxy.lose_replies(LOSSES, to=script(name).sha1)
            wait_for(partial(_has_lost, proxy, lost), f"lost replies to {name}", 60)
        crawl.conclude()
        assert all("This worker stops" not in worker.log for worker in workers)


def _has_lost(proxy: Proxy, replies: int) -> bool:
    return proxy.lost == replies


def test_the_end_of_a_crawl_is_not_lost_with_the_reply_that_told_of_it(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        proxy = crawl.proxy()
        proxy.lose_replies(1, to=script("finish").sha1)
        worker = crawl.start(through=proxy)
        crawl.conclude()
        assert proxy.lost == 1
        assert "Redis answers again" in worker.log


def test_a_worker_that_is_cut_off_breaks_off_its_requests_and_others_take_over(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    site = SlowSite()
    site.delay_s = 600
    with (
        site.origin() as origin,
        Proxy(redis_server.port) as proxy,
        Fleet(tmp_path, redis_server.url) as fleet,
    ):
        lonely = start(fleet, origin, "lonely", {"REDIS_URL": proxy.url})
        wait_for(lambda: fleet.status()["leased"] >= 2 * AT_ONCE, "a full worker", 60)
        proxy.hang()
        held = fleet.status()["leased"]
        lonely.wait_for_log(f"{AT_ONCE} requests broken off")
        wait_for(lambda: _established_to(origin) == 0, "no connection to the origin", 20)
        site.delay_s = 0
        heir = start(fleet, origin, "heir", STEADY)
        assert heir.wait() == "finished"
        proxy.cut()
        proxy.heal()
        assert lonely.wait() == "finished"
        asked, now = fetch_counts(origin.requests()), fleet.status()
    assert (now["done"], now["balance"], now["reclaimed"]) == (PAGES + 1, 0, held)
    assert sum(asked.values()) == PAGES + 1, "what was under way was asked for once more"
    assert "no longer this worker's" in lonely.log


def _established_to(origin: Origin) -> int:
    """Connections to the origin whose other end has not been closed, as the kernel has them."""
    port = int(origin.host.rpartition(":")[2])
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = [(line.split()[1].rpartition(":")[2], line.split()[3]) for line in lines]
    return ends.count((f"{port:04X}", "01"))


def test_a_robots_txt_that_arrives_while_redis_is_away_is_fetched_again(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with Proxy(redis_server.port) as proxy:

        def robots_txt(request: Request) -> Reply:
            if request.attempt == 1:
                proxy.cut()
            return Reply(body=b"User-agent: *\nDisallow: /private")

        routes: dict[str, Route] = {"/": Reply(body=b"<a href=/private>x</a>")}
        with (
            Origin({**routes, "/robots.txt": robots_txt}) as origin,
            Fleet(tmp_path, proxy.url) as fleet,
        ):
            worker = fleet.start(seeds=origin.url("/"))
            worker.wait_for_log("robots.txt is fetched again", 60)
            proxy.heal()
            assert worker.wait() == "finished"
            asked = fetch_counts(origin.requests())
    assert asked == {origin.url("/robots.txt"): 2, origin.url("/"): 1}
    assert "Spider error" not in worker.log


def test_a_slow_redis_costs_time_and_nothing_else(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        near, far = crawl.proxy(), crawl.proxy()
        near.delay_s, far.delay_s = 0.005, 0.05
        workers = [crawl.start(PATIENT, through=way) for way in (near, far)]
        assert crawl.conclude()["reclaimed"] == 0
        assert all("WARNING" not in worker.log for worker in workers)
