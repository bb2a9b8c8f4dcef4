"""A network between worker and Redis that loses replies, is slow, or is not there."""

from __future__ import annotations

from pathlib import Path

from crawlproj.frontier.scripts import script
from tests.chaos.harness import trial
from tests.servers.redis import wait_for

REPEATED = ("push", "lease", "settle", "renew", "reclaim")
LOSSES = 3


def test_what_redis_has_done_is_not_done_again_when_its_reply_is_lost(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        proxy = crawl.proxy()
        workers = [crawl.start(through=proxy) for _ in range(2)]
        crawl.wait_for_pages(5)
        for number, name in enumerate(REPEATED, 1):
            proxy.lose_replies(LOSSES, to=script(name).sha1)
            wait_for(lambda: proxy.lost == number * LOSSES, f"lost replies to {name}", 60)  # noqa: B023
        now = crawl.conclude()
        assert now["reclaimed"] == 0
        assert all("This worker stops" not in worker.log for worker in workers)


def test_the_end_of_a_crawl_is_not_lost_with_the_reply_that_told_of_it(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        proxy = crawl.proxy()
        proxy.lose_replies(1, to=script("finish").sha1)
        worker = crawl.start(through=proxy)
        crawl.conclude()
        assert proxy.lost == 1
        assert "Redis answers again" in worker.log


def test_a_worker_that_is_cut_off_stops_fetching_and_others_take_over(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        proxy = crawl.proxy()
        crawl.start(through=proxy)
        crawl.wait_for_pages(10)
        proxy.hang()
        other = crawl.start()

        def crew() -> list[int]:
            return [worker["pid"] for worker in crawl.status()["workers"]]

        wait_for(lambda: crew() == [other.process.pid], "it counts as dead", 60)
        before = len(crawl.web.requests())
        crawl.wait_for_pages(crawl.status()["done"] + 20)
        since = {one.user_agent for one in crawl.web.requests()[before:]}
        assert since == {"worker-1"}
        proxy.cut()
        proxy.heal()
        crawl.conclude()


def test_a_slow_redis_costs_time_and_nothing_else(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        near, far = crawl.proxy(), crawl.proxy()
        near.delay_s, far.delay_s = 0.005, 0.05
        workers = [crawl.start(through=way) for way in (near, far)]
        assert crawl.conclude()["reclaimed"] == 0
        assert all("WARNING" not in worker.log for worker in workers)
