"""retry_dead.lua and forget_dead.lua: what becomes of dead letters."""

from __future__ import annotations

import pytest

from crawlproj.frontier.messages import Push, Settlement
from crawlproj.frontier.refusals import CrawlFinished
from crawlproj.frontier.wire import pack
from tests.lua.helpers import (
    A,
    B,
    HandCrawl,
    Host,
    State,
    Worker,
    entry,
    letter,
    link,
    packed,
    unfiltered,
    with_worker,
)

FIRST, SECOND = letter(A, "/1"), letter(B, "/1")


def _with_two_dead(crawl: HandCrawl) -> Worker:
    crawl.open(max_attempts=1)
    worker = crawl.worker()
    worker.push(link(A, "/1", 3), link(B, "/1"))
    worker.settle(*(Settlement(one.token, "dead", reason="dns") for one in worker.lease().leases))
    assert crawl.state() == _dead_state()
    return worker


def _dead_state() -> State:
    return with_worker(
        counts={"discovered": 2, "dead": 2, "dead:dns": 2},
        hosts={A: Host(), B: Host()},
        dead={(A, 3, "/1'", "dns", 1), (B, 0, "/1'", "dns", 1)},
        layers=[2],
    )


def test_a_letter_that_is_retried_is_queued_as_if_it_had_never_been_tried(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    assert worker.retry_dead([FIRST]) == 1
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "dead": 1, "dead:dns": 1},
        hosts={A: Host([3], at="ready"), B: Host()},
        ready=[A],
        queues={A: {3: ["/1"]}},
        dead={(B, 0, "/1'", "dns", 1)},
        layers=[2],
    )
    assert worker.done(worker.lease_one()) == []


def test_a_forgotten_letter_is_counted_as_filtered(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    assert worker.forget_dead([FIRST, SECOND]) == 2
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "filtered:forgotten": 2}, hosts={A: Host(), B: Host()}, layers=[2]
    )


@pytest.mark.parametrize("operation", ["retry_dead", "forget_dead"])
def test_a_letter_that_is_gone_or_unreadable_is_passed_over(
    crawl: HandCrawl, operation: str
) -> None:
    worker = _with_two_dead(crawl)
    sound = crawl.redis.hget(crawl.key("dead"), SECOND)
    crawl.redis.hset(crawl.key("dead"), SECOND, b"\xc1")
    assert getattr(worker, operation)([FIRST, FIRST, SECOND, 99]) == 1
    assert crawl.redis.hget(crawl.key("dead"), SECOND) == b"\xc1"
    crawl.redis.hset(crawl.key("dead"), SECOND, sound)


def test_reviving_again_after_a_lost_reply_changes_nothing(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    worker.retry_dead([FIRST, SECOND])
    before = crawl.state()
    assert worker.retry_dead([FIRST, SECOND]) == 0
    assert crawl.state() == before


def test_a_finished_crawl_must_be_opened_before_a_letter_is_retried(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    worker.finish()
    with pytest.raises(CrawlFinished):
        worker.retry_dead([FIRST])
    worker.set_state("running", ["finished"])
    assert worker.retry_dead([FIRST]) == 1


def _give_up_again(worker: Worker, *urls: Push) -> None:
    worker.push(*urls)
    leases = worker.lease().leases
    worker.settle(*(Settlement(one.token, "dead", reason="timeout") for one in leases))


def test_a_url_that_is_given_up_again_and_again_has_one_letter_its_latest(
    crawl: HandCrawl,
) -> None:
    worker = _with_two_dead(crawl)
    for _ in range(3):
        _give_up_again(worker, unfiltered(A, "/1", 5))
    counts = {"discovered": 5, "dead": 2, "dead:dns": 1, "dead:timeout": 1}
    assert crawl.state() == with_worker(
        counts=counts | {"filtered:dead_again": 3},
        hosts={A: Host(), B: Host()},
        dead={(A, 5, "/1'", "timeout", 4), (B, 0, "/1'", "dns", 1)},
        layers=[2],
    )
    assert worker.retry_dead([FIRST]) == 1
    _give_up_again(worker)
    assert (A, 5, "/1'", "timeout", 1) in crawl.state().dead


def test_requests_of_one_url_with_other_bodies_have_letters_of_their_own(crawl: HandCrawl) -> None:
    crawl.open(max_attempts=1, per_host=9)
    worker = crawl.worker()
    bodies: list[dict[str, str]] = [{}, {"body": "1"}, {"body": "2"}, {"method": "HEAD"}]
    for _ in range(2):
        entries = [b"\0\1" + pack(["/form", 0, "", rest]) for rest in bodies]
        _give_up_again(worker, *(unfiltered(A, "")._replace(entry=entry) for entry in entries))
    assert crawl.redis.hlen(crawl.key("dead")) == len(bodies)


def test_a_letter_of_an_older_crawl_is_read_retried_and_forgotten(crawl: HandCrawl) -> None:
    worker = _with_two_dead(crawl)
    for number, path in ((7, "/old"), (8, "/older")):
        older = packed(A, 0, entry(path, 1), "dns", 1_000)
        crawl.redis.hset(crawl.key("dead"), number, older)
    for name in ("discovered", "dead", "dead:dns"):
        crawl.redis.hincrby(crawl.key("counts"), name, 2)

    async def read() -> dict[int, int]:
        return {letter.number: letter.times async for letter in worker.shard.dead()}

    assert crawl.run(read()) == {7: 1, 8: 1, FIRST: 1, SECOND: 1}
    assert worker.retry_dead([7]) == worker.forget_dead([8]) == 1
    assert crawl.state().queues == {A: {0: ["/old"]}}
