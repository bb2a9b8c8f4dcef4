"""renew.lua and leave.lua: a worker is known by its heartbeat, until it says goodbye."""

from __future__ import annotations

from crawlproj.frontier.messages import Reclaimed, Renewed, Settlement
from tests.lua.helpers import MINUTE_MS, A, HandCrawl, Host, State, link


def test_the_first_heartbeat_makes_a_worker_known(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.stranger()
    assert worker.renew(5 * MINUTE_MS, {"pid": 1}) == Renewed(False, "running", 0, 0)
    assert crawl.state() == State(workers={"w": 5}, about={"w": {"pid": 1}})


def test_all_who_took_part_are_kept_also_those_that_an_older_version_knew(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.redis.hset(crawl.key("meta"), "crew", "old older ")
    for name in ("new", "newer", "new"):
        crawl.worker(name)
    assert crawl.redis.hget(crawl.key("meta"), "all_workers") == b"old older new newer "


def test_every_heartbeat_moves_the_deadline_of_all_that_is_held(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker(timeout_minutes=5)
    crawl.at(4)
    assert worker.renew(5 * MINUTE_MS, {"pages": 7}) == Renewed(True, "running", 0, 0)
    assert crawl.state() == State(workers={"w": 9}, about={"w": {"pages": 7}})


def test_the_heartbeat_tells_the_state_and_works_in_every_state(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    for state in ("paused", "stopping", "stopped", "finished"):
        crawl.redis.hset(crawl.key("meta"), "state", state)
        assert worker.renew(1000 * MINUTE_MS, {}) == Renewed(True, state, 0, 0)


def test_a_worker_that_was_declared_dead_learns_of_it_and_goes_on(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker(timeout_minutes=1)
    worker.push(link(A, "/1"))
    worker.lease()
    crawl.at(2)
    assert crawl.stranger("other").reclaim() == Reclaimed(1, 1, [])
    assert worker.renew(1000 * MINUTE_MS, {}) == Renewed(False, "running", 0, 0)
    assert len(worker.lease().leases) == 1


def test_a_worker_that_holds_nothing_leaves_without_a_trace(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.done(worker.lease_one())
    assert worker.leave() is True
    assert crawl.state() == State(
        counts={"discovered": 1, "done": 1}, hosts={A: Host(pages=1)}, layers=[1]
    )
    assert worker.leave() is True


def test_what_a_leaving_worker_still_holds_is_reclaimed_at_once(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.lease()
    before = crawl.state()
    assert worker.leave() is False
    after = crawl.state()
    assert (after.workers, after.leased) == ({"w": 0}, before.leased)
    assert crawl.stranger("other").reclaim() == Reclaimed(1, 1, [])


def test_a_worker_that_the_shard_does_not_know_may_say_goodbye(crawl: HandCrawl) -> None:
    crawl.open()
    assert crawl.stranger().leave() is True
    assert crawl.state() == State()


def test_a_worker_that_leaves_or_is_buried_takes_the_replies_to_its_settlements_with_it(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    leaves, dies = crawl.worker(), crawl.worker("dead", timeout_minutes=1)
    for number in range(20):
        for worker in (leaves, dies):
            worker.push(link(A, f"/{number} of {worker.name}"))
            worker.done(worker.lease_one())
    assert crawl.redis.hlen(crawl.key("replies")) == 2 * 8
    crawl.at(2)
    assert leaves.reclaim().workers == 1
    dies.settle(Settlement(1, "done"))
    assert crawl.redis.hlen(crawl.key("replies")) == 8
    assert leaves.leave() is True
    assert not crawl.redis.exists(crawl.key("replies"))
