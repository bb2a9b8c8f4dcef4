"""open.lua: a crawl begins, is joined, resumed, or found finished."""

from __future__ import annotations

from typing import Any

import pytest

from crawlproj.frontier import keys
from crawlproj.frontier.messages import Push
from crawlproj.frontier.wire import pack
from tests.lua.helpers import CRAWL, A, HandCrawl, Host, State, apart, link


def _mode(crawl: HandCrawl, **how: Any) -> tuple[str, str, str]:
    opened = crawl.open(**how)
    return opened.mode, opened.epoch, opened.state


def test_the_first_worker_begins_the_crawl(crawl: HandCrawl) -> None:
    assert _mode(crawl, pages=5, per_host=3) == ("new", "e1", "running")
    assert crawl.state() == State(meta={"state": "running", "pages": 5})
    assert crawl.opened is not None and crawl.opened.plan == '{"plan": 1}'


def test_one_that_comes_while_the_crawl_is_empty_or_has_workers_joins_it(crawl: HandCrawl) -> None:
    crawl.open(pages=5)
    assert _mode(crawl, run="second", pages=9) == ("joined", "e1", "running")
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    before = crawl.state()
    assert _mode(crawl, run="third") == ("joined", "e1", "running")
    assert crawl.state() == before


def test_one_that_comes_after_all_others_died_resumes_the_crawl(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker(timeout_minutes=1)
    worker.push(link(A, "/1"))
    worker.lease()
    crawl.at(2)
    before = crawl.state()
    assert _mode(crawl, run="later") == ("resumed", "e1", "running")
    assert crawl.state() == before


def test_a_stopped_crawl_runs_again_with_a_new_deadline(crawl: HandCrawl) -> None:
    crawl.open(minutes=5)
    worker = crawl.stranger()
    worker.push(link(A, "/1"))
    crawl.at(9)
    assert worker.set_state("stopping", ["running"]) == "stopped"
    assert _mode(crawl, run="later", minutes=5) == ("resumed", "e1", "running")
    worker = crawl.worker()
    crawl.at(13)
    assert worker.lease().state == "running"
    crawl.at(15)
    assert worker.lease().state == "stopping"


def _interrupted_before_its_deadline(crawl: HandCrawl, follow: str = "") -> None:
    crawl.open(minutes=5, follow=follow)
    crawl.worker(timeout_minutes=1).push(link(A, "/1"))
    crawl.at(9)


@pytest.mark.parametrize("shard", ["first", "other"])
def test_an_interrupted_crawl_whose_time_is_over_meanwhile_gets_a_new_deadline(
    crawl: HandCrawl, shard: str
) -> None:
    follow = "" if shard == "first" else "epoch"
    _interrupted_before_its_deadline(crawl, follow)
    crawl.open(run="later", minutes=5, follow=follow)
    worker = crawl.worker()
    crawl.at(13)
    assert worker.lease().state == "running"
    crawl.at(15)
    assert worker.lease().state == "stopping"


def test_a_worker_that_replaces_another_has_the_deadline_of_the_crawl(crawl: HandCrawl) -> None:
    _interrupted_before_its_deadline(crawl)
    assert _mode(crawl, minutes=5) == ("resumed", "e1", "running")
    assert crawl.worker().lease().state == "stopping"


@pytest.mark.parametrize(("asked_minutes", "ends_at"), [(0, 5), (5, 9)])
def test_an_interrupted_crawl_that_has_time_left_keeps_its_deadline_unless_it_is_given_another(
    crawl: HandCrawl, asked_minutes: int, ends_at: int
) -> None:
    _interrupted_before_its_deadline(crawl)
    crawl.at(4)
    crawl.open(run="later", minutes=asked_minutes)
    worker = crawl.worker()
    crawl.at(ends_at - 0.5)
    assert worker.lease().state == "running"
    crawl.at(ends_at + 0.5)
    assert worker.lease().state == "stopping"


def test_a_crawl_that_was_stopping_when_its_workers_died_runs_again(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker(timeout_minutes=1)
    worker.push(link(A, "/1"))
    worker.set_state("stopping", ["running"])
    assert _mode(crawl) == ("joined", "e1", "stopping")
    crawl.at(2)
    assert _mode(crawl) == ("resumed", "e1", "running")


def test_a_paused_crawl_stays_paused(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.stranger().set_state("paused", ["running"])
    assert _mode(crawl, run="later") == ("joined", "e1", "paused")


def test_after_a_finished_crawl_a_new_one_begins_from_nothing(crawl: HandCrawl) -> None:
    crawl.open(pages=3, minutes=1)
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.done(worker.lease_one())
    worker.finish()
    assert _mode(crawl, run="later") == ("new", "e2", "running")
    assert crawl.state() == State()
    assert int(crawl.redis.hget(crawl.key("meta"), "deadline_ms")) == 0
    assert crawl.stranger().push(link(A, "/1")) == [True]


def test_a_worker_that_was_started_with_the_others_finds_the_crawl_finished(
    crawl: HandCrawl,
) -> None:
    crawl.open(run="fleet")
    crawl.open(run="guest")
    crawl.stranger().finish()
    before = crawl.state()
    for run in ("fleet", "guest"):
        assert _mode(crawl, run=run) == ("finished", "e1", "finished")
    assert crawl.state().raw == before.raw


def test_a_run_is_not_taken_for_another_that_begins_or_ends_like_it(crawl: HandCrawl) -> None:
    crawl.open(run="run-12")
    crawl.open(run="a b")
    crawl.stranger().finish()
    for run in ("run-1", "12", "a", "b"):
        assert crawl.open(run=run, brings_seed=False).mode == "waiting"
    assert _mode(crawl, run="a b") == ("finished", "e1", "finished")


def test_however_often_workers_are_started_their_runs_take_no_more_room(crawl: HandCrawl) -> None:
    crawl.open(run="first")
    crawl.redis.hset(crawl.key("meta"), "runs", " first" + " x" * 15_000)
    crawl.open(run="last")
    runs = crawl.redis.hget(crawl.key("meta"), "runs")
    assert len(runs) == 20_000 and runs.endswith(b" x last")


# Without a seed nothing begins


def test_who_brings_no_seed_waits_at_a_finished_crawl_and_changes_nothing(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    worker.done(worker.lease_one())
    worker.finish()
    before = crawl.state()
    assert _mode(crawl, run="later", brings_seed=False) == ("waiting", "e1", "finished")
    assert crawl.state().raw == before.raw


def test_a_plan_binds_nobody_before_the_first_seed(crawl: HandCrawl) -> None:
    assert _mode(crawl, brings_seed=False, pages=5) == ("waiting", "e1", "running")
    assert _mode(crawl, brings_seed=False, pages=6) == ("waiting", "e1", "running")
    assert _mode(crawl, pages=7)[0] == "new"
    assert crawl.state() == State(meta={"state": "running", "pages": 7})
    assert _mode(crawl, run="later", pages=8)[0] == "joined"


def test_a_seed_that_another_has_taken_in_meanwhile_begins_nothing(crawl: HandCrawl) -> None:
    crawl.open(run="first")
    crawl.stranger().finish()
    assert _mode(crawl, run="second", seed_found_at="e1")[:2] == ("new", "e2")
    crawl.stranger().finish()
    found = _mode(crawl, run="third", seed_found_at="e1")
    assert found == ("waiting", "e2", "finished")


def test_a_crawl_that_was_paused_before_its_first_seed_begins_paused(crawl: HandCrawl) -> None:
    crawl.open(brings_seed=False)
    crawl.stranger().set_state("paused", ["running"])
    assert _mode(crawl)[2] == "paused"
    assert crawl.state().meta["state"] == "paused"


def test_who_waits_for_seeds_where_those_before_were_stopped_is_not_stopped(
    crawl: HandCrawl,
) -> None:
    crawl.open(brings_seed=False)
    assert crawl.stranger().set_state("stopping", ["running"]) == "stopped"
    assert _mode(crawl, brings_seed=False) == ("waiting", "e1", "running")


def test_a_stop_also_dismisses_who_waited_when_it_came(crawl: HandCrawl) -> None:
    crawl.open(brings_seed=False)
    assert _mode(crawl, run="first")[:2] == ("new", "e2")
    crawl.stranger().push(link(A, "/1"))
    assert crawl.stranger().set_state("stopping", ["running"]) == "stopped"
    before = crawl.state()
    assert _mode(crawl, run="waited", dismissals=0) == ("waiting", "e2", "stopped")
    assert crawl.state().raw == before.raw
    assert _mode(crawl, run="comes anew")[0] == "resumed"
    crawl.worker()
    assert _mode(crawl, run="waited since then", dismissals=1)[0] == "joined"


def test_who_waits_for_the_crawl_after_next_is_dismissed_as_well(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.stranger().finish()
    assert crawl.stranger().set_state("stopping", ["running"]) == "finished"
    assert _mode(crawl, run="second")[0] == "new"
    assert _mode(crawl, run="waited", dismissals=0)[0] == "waiting"
    assert _mode(crawl, run="came after the stop", dismissals=1)[0] == "joined"


def test_another_shard_follows_the_first_into_its_epoch(crawl: HandCrawl) -> None:
    assert _mode(crawl, follow="other") == ("new", "other", "running")
    crawl.stranger().push(link(A, "/1"))
    before = crawl.state()
    assert _mode(crawl, follow="other")[1:] == ("other", "running")
    assert crawl.state() == before


def test_what_an_abandoned_crawl_left_does_not_come_back_in_the_next(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2", 5), link("http://b", "/1"))
    worker.lease()
    crawl.redis.hset(crawl.key("hosts"), "damaged", pack([1, 2]))
    assert _mode(crawl, follow="anew") == ("new", "anew", "running")
    assert crawl.state() == State()
    crawl.stranger().push(link(A, "/3"))
    assert crawl.state() == State(
        counts={"discovered": 1, "queued": 1},
        hosts={A: Host([0], at="ready")},
        ready=[A],
        queues={A: {0: ["/3"]}},
        layers=[1],
    )


def _calls(crawl: HandCrawl, *commands: str) -> int:
    stats = crawl.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in commands)


def _many(hosts: int) -> list[Push]:
    return [link(f"http://h{number}", "/") for number in range(hosts)]


def test_beginning_anew_after_a_finished_crawl_reads_none_of_its_hosts(crawl: HandCrawl) -> None:
    """All of a large crawl would take so long that every crawl of the server stood still."""
    crawl.open()
    worker = crawl.worker()
    worker.push(*_many(100))
    worker.filter_queued("page_limit")
    worker.finish()
    crawl.redis.config_resetstat()
    assert _mode(crawl, run="later")[0] == "new"
    assert _calls(crawl, "hgetall", "hkeys", "hvals", "hscan", "zrange", "zscan") == 0
    assert crawl.state() == State()


def test_what_an_abandoned_crawl_left_is_cleared_away_in_pieces(
    crawl: HandCrawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlproj.frontier.shard.CLEARED_AT_ONCE", 10)
    crawl.open(group="domain")
    worker = crawl.worker()
    hosts = 1000
    worker.push(*(one._replace(group=f"g{n}") for n, one in enumerate(_many(hosts))))
    worker.push(apart(A, "/1", "/#"))
    worker.lease(2)
    crawl.redis.config_resetstat()
    assert _mode(crawl, follow="anew") == ("new", "anew", "running")
    assert crawl.state() == State()
    assert _calls(crawl, "hscan") > 2 * hosts / 100, "hosts and groups, a few at once"


def test_clearing_away_what_was_left_ends_when_another_worker_has_begun(crawl: HandCrawl) -> None:
    crawl.open()
    crawl.worker().push(link(A, "/1"))
    crawl.open(follow="anew")
    worker = crawl.worker()
    worker.push(link(A, "/2"))
    before = crawl.state()
    crawl.run(worker.shard.clear(b"e1", 1))
    assert crawl.state() == before


def test_every_key_of_a_crawl_carries_its_shards_tag(crawl: HandCrawl) -> None:
    crawl.open(pages=9)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(A, "/2"))
    worker.lease()
    tag = keys.tag(CRAWL, 0)
    assert tag == "{c:0}"
    found = crawl.redis.keys()
    assert len(found) > 8 and all(name.decode().startswith(tag) for name in found)
