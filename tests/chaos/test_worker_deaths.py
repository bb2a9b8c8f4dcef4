"""Workers that die, stand still or are told to go: what they held is done by others, once."""

from __future__ import annotations

import signal
from pathlib import Path

from crawlproj import failpoints
from crawlproj.operate.audit import RESOLUTION_S
from crawlproj.operate.request_log import smallest_gap_s
from tests.chaos.harness import DELAY_S, PATIENT, trial
from tests.chaos.slow import AT_ONCE, PAGES, STEADY, SlowSite, start
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.origin import Origin, Reply
from tests.servers.redis import RedisServer, wait_for


def test_a_worker_may_die_at_any_step(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        doomed = {point: crawl.start(failpoint=f"{point}:4") for point in failpoints.POINTS}
        codes = {point: worker.process.wait(60) for point, worker in doomed.items()}
        assert codes == dict.fromkeys(failpoints.POINTS, -signal.SIGKILL)
        crawl.start()
        assert crawl.conclude()["reclaimed"] > 0


def test_a_worker_that_was_stopped_for_too_long_gives_up_what_others_have_taken_over(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with SlowSite().origin() as origin, Fleet(tmp_path, redis_server.url) as fleet:
        zombie = start(fleet, origin, "zombie")
        # As many in the engine as may be, all of them at the origin, and as many in hand.
        wait_for(lambda: fleet.status()["leased"] >= 2 * AT_ONCE, "a full worker", 60)
        zombie.signal(signal.SIGSTOP)
        held = fleet.status()["leased"]
        heir = start(fleet, origin, "heir", STEADY)
        wait_for(lambda: fleet.status()["reclaimed"] >= held, "an inheritance", 60)
        wait_for(lambda: fleet.status()["done"] > held, "the heir's pages", 60)
        zombie.signal(signal.SIGCONT)
        zombie.wait_for_log("no longer this worker's")
        assert [zombie.wait(), heir.wait()] == ["finished"] * 2
        now = fleet.status()
        log = sorted(origin.requests())
    assert (now["done"], now["balance"], now["leased"]) == (PAGES + 1, 0, 0)
    assert 0 < now["late"] <= now["reclaimed"] >= held
    assert len(fleet.urls()) - len(set(fleet.urls())) <= now["reclaimed"]
    first = {one.url: one.user_agent for one in reversed(log)}
    stolen = [one.url for one in log if one.user_agent == "zombie" != first[one.url]]
    assert stolen == []


NAPPING = """
import time
from pathlib import Path
from spiders.site import SiteSpider as Awake

class SiteSpider(Awake):
    def parse(self, response):
        if not response.url.endswith("/"):
            Path("{folder}/asleep").touch()
            while not Path("{folder}/waken").exists():
                time.sleep(0.05)
        yield from super().parse(response)
"""


def test_a_worker_whose_callback_blocks_counts_as_dead_and_one_result_counts(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    (tmp_path / "napping.py").write_text(NAPPING.format(folder=tmp_path))
    path = {"PYTHONPATH": f"{tmp_path}:{PROJECT}"}
    with SlowSite().origin() as origin, Fleet(tmp_path, redis_server.url) as fleet:
        start(fleet, origin, "sleeper", {"SPIDER_MODULES": "napping"}, path)
        wait_for((tmp_path / "asleep").exists, "a callback that blocks", 60)
        start(fleet, origin, "awake", STEADY)
        wait_for(lambda: fleet.status()["reclaimed"] > 0, "it counts as dead", 60)
        (tmp_path / "waken").touch()
        assert fleet.wait() == ["finished"] * 2
        now = fleet.status()
    assert (now["done"], now["balance"], now["leased"]) == (PAGES + 1, 0, 0)
    assert 0 < now["late"] <= now["reclaimed"]
    assert len(fleet.urls()) - len(set(fleet.urls())) <= now["reclaimed"]


def test_what_a_worker_held_is_taken_back_when_it_is_started_again_under_its_name(
    tmp_path: Path,
) -> None:
    with trial(tmp_path) as crawl:
        named = {"CRAWL_WORKER_ID": "one", "FRONTIER_LEASE_TIMEOUT": 60}
        crawl.start(named, failpoint="written:3").process.wait(60)
        held = crawl.status()["leased"]
        crawl.start(named)
        assert crawl.conclude()["reclaimed"] == held > 0


def test_a_second_worker_of_the_same_name_is_refused_while_the_first_works(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        named = {"CRAWL_WORKER_ID": "one", **PATIENT}
        first = crawl.start(named, delay=4 * DELAY_S)
        crawl.wait_for_pages(1)
        second = crawl.start(named)
        assert second.wait() == "could not start"
        assert f"Another worker is called one (process {first.process.pid} on " in second.log
        assert "Traceback" not in second.log
        crawl.conclude()


def test_a_host_is_left_alone_as_long_as_it_asks_though_its_worker_is_started_anew(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """Far longer than the crawl's delay, and than a worker takes to start."""
    delay_s = 5
    robots_txt = Reply(body=f"User-agent: *\nCrawl-delay: {delay_s}".encode())
    named = {"CRAWL_WORKER_ID": "one", "CRAWL_ALLOW_ADDRESSES": "loopback"}
    dying = {failpoints.VARIABLE: "fetched:2"}
    with (
        Origin({"/robots.txt": robots_txt, "/": Reply()}) as origin,
        Fleet(tmp_path, redis_server.url) as fleet,
    ):
        fleet.start(named, env=dying, seeds=origin.url("/"), delay=0.02).process.wait(60)
        assert fleet.start(named, delay=0.02).wait() == "finished"
        log = sorted(origin.requests())
        reclaimed = fleet.status()["reclaimed"]
    assert ([one.path for one in log], reclaimed) == (["/robots.txt", "/", "/"], 1)
    (gap_s,) = smallest_gap_s(log).values()
    assert gap_s >= delay_s - RESOLUTION_S


def test_ctrl_c_returns_what_is_held_and_a_second_one_ends_at_once_with_nothing_lost(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    site = SlowSite()
    with site.origin() as origin, Fleet(tmp_path, redis_server.url) as fleet:
        patient = start(fleet, origin, "patient")
        wait_for(lambda: fleet.status()["done"] > AT_ONCE, "some pages", 60)
        patient.signal(signal.SIGINT)
        assert patient.wait() == "shutdown"
        now = fleet.status()
        assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)
        assert len(fleet.urls()) == now["done"]
        site.delay_s = 600
        hasty = start(fleet, origin, "hasty")
        wait_for(lambda: fleet.status()["leased"] >= 2 * AT_ONCE, "a full worker", 60)
        hasty.signal(signal.SIGINT)
        hasty.wait_for_log("Closing spider (shutdown)")
        hasty.signal(signal.SIGINT)
        hasty.wait()
        assert fleet.status()["leased"] >= AT_ONCE
        site.delay_s = 0
        assert start(fleet, origin, "heir").wait() == "finished"
        now = fleet.status()
    assert (now["done"], now["balance"], now["leased"]) == (PAGES + 1, 0, 0)
    assert len(set(fleet.urls())) == len(fleet.urls()) == now["done"]
