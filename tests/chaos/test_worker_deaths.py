"""Workers that die, stand still or are told to go: what they held is done by others, once."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from crawlproj.failpoints import POINTS
from tests.chaos.harness import SETTINGS, TIMEOUT_S, trial
from tests.servers.fleet import PROJECT, Fleet, Worker, fleet
from tests.servers.origin import Origin, Reply, Route
from tests.servers.redis import RedisServer, wait_for

PAGES = 60


def test_a_worker_may_die_at_any_step(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl:
        doomed = {point: crawl.start(failpoint=f"{point}:4") for point in POINTS}
        codes = {point: worker.process.wait(60) for point, worker in doomed.items()}
        assert codes == dict.fromkeys(POINTS, -signal.SIGKILL)
        crawl.start()
        assert crawl.conclude()["reclaimed"] > 0


AT_ONCE = 4
SLOW = {"CONCURRENT_REQUESTS": AT_ONCE, "POLITENESS_ROBOTS": False}
"""In the engine; as many are leased ahead and wait in the worker's hands."""


class SlowSite:
    """A root and the pages it links to, each of which takes its time."""

    def __init__(self) -> None:
        self.delay_s = 0.5
        links = "".join(f"<a href=/{number}>x</a>" for number in range(PAGES))
        self._root: dict[str, Route] = {"/": Reply(body=links.encode())}
        self._page = b"<title>slow</title>"

    def origin(self) -> Origin:
        return Origin(self._root, default=lambda _: Reply(body=self._page, delay_s=self.delay_s))


def start(
    ships: Fleet, origin: Origin, name: str, env: dict[str, str] | None = None, **settings: Any
) -> Worker:
    return ships.start(
        {**SETTINGS, **SLOW, "USER_AGENT": name, **settings},
        env=env,
        seeds=origin.url("/"),
        delay=0,
        per_host=3 * AT_ONCE,
    )


def test_a_worker_that_was_stopped_for_too_long_gives_up_what_others_have_taken_over(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with SlowSite().origin() as origin, fleet(tmp_path, redis_server.url) as ships:
        zombie = start(ships, origin, "zombie")
        # As many in the engine as may be, all of them at the origin, and as many in hand.
        wait_for(lambda: ships.status()["leased"] == 2 * AT_ONCE, "a full worker", 60)
        zombie.signal(signal.SIGSTOP)
        held = ships.status()["leased"]
        heir = start(ships, origin, "heir")
        wait_for(lambda: ships.status()["done"] > held, "the heir's pages", 60)
        zombie.signal(signal.SIGCONT)
        zombie.wait_for_log("no longer this worker's")
        assert [zombie.wait(), heir.wait()] == ["finished"] * 2
        now = ships.status()
        log = sorted(origin.requests())
    assert (now["done"], now["balance"], now["leased"]) == (PAGES + 1, 0, 0)
    assert 0 < now["late"] <= now["reclaimed"] == held
    assert len(ships.urls()) - len(set(ships.urls())) <= now["reclaimed"]
    first = {one.url: one.user_agent for one in reversed(log)}
    stolen = [one.url for one in log if one.user_agent == "zombie" != first[one.url]]
    assert stolen == []


NAPPING = """
import time
from spiders.site import SiteSpider as Awake

class SiteSpider(Awake):
    naps = 1

    def parse(self, response, **given):
        if self.naps and response.url.endswith("/7"):
            self.naps = 0
            time.sleep({seconds})
        yield from super().parse(response, **given)
"""


def test_a_worker_whose_callback_blocks_counts_as_dead_and_one_result_counts(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    (tmp_path / "napping.py").write_text(NAPPING.format(seconds=3 * TIMEOUT_S))
    path = {"PYTHONPATH": f"{tmp_path}:{PROJECT}"}
    with SlowSite().origin() as origin, fleet(tmp_path, redis_server.url) as ships:
        sleeper = start(ships, origin, "sleeper", env=path, SPIDER_MODULES="napping")
        start(ships, origin, "awake")
        assert ships.wait() == ["finished"] * 2
        now = ships.status()
    assert "no longer this worker's" in sleeper.log or now["late"] > 0
    assert (now["done"], now["balance"], now["leased"]) == (PAGES + 1, 0, 0)
    assert now["reclaimed"] > 0
    assert len(ships.urls()) - len(set(ships.urls())) <= now["reclaimed"]


def test_what_a_worker_held_is_taken_back_when_it_is_started_again_under_its_name(
    tmp_path: Path,
) -> None:
    with trial(tmp_path) as crawl:
        named = {"CRAWL_WORKER_ID": "one", "FRONTIER_LEASE_TIMEOUT": 60}
        crawl.start(named, failpoint="written:3").process.wait(60)
        held = crawl.status()["leased"]
        crawl.start(named)
        assert crawl.conclude()["reclaimed"] == held > 0


def test_ctrl_c_returns_what_is_held_and_a_second_one_ends_at_once_with_nothing_lost(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    site = SlowSite()
    with site.origin() as origin, fleet(tmp_path, redis_server.url) as ships:
        patient = start(ships, origin, "patient")
        wait_for(lambda: ships.status()["done"] > AT_ONCE, "some pages", 60)
        patient.signal(signal.SIGINT)
        assert patient.wait() == "shutdown"
        now = ships.status()
        assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)
        assert len(ships.urls()) == now["done"]
        site.delay_s = 600
        hasty = start(ships, origin, "hasty")
        wait_for(lambda: ships.status()["leased"] == 2 * AT_ONCE, "a full worker", 60)
        hasty.signal(signal.SIGINT)
        hasty.wait_for_log("Closing spider (shutdown)")
        hasty.signal(signal.SIGINT)
        hasty.wait()
        assert ships.status()["leased"] >= AT_ONCE
        site.delay_s = 0
        assert start(ships, origin, "heir").wait() == "finished"
        now = ships.status()
    assert (now["done"], now["balance"], now["leased"]) == (PAGES + 1, 0, 0)
    assert len(set(ships.urls())) == len(ships.urls()) == now["done"]
