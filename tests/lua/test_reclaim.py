"""reclaim.lua: what dead workers held comes back, within limits."""

from __future__ import annotations

from crawlproj.frontier import keys
from crawlproj.frontier.messages import Reclaimed
from crawlproj.frontier.plan import DOMAIN
from crawlproj.worker.outcome import CLOCK_MS
from tests.lua.helpers import (
    CRAWL,
    MINUTE_MS,
    A,
    B,
    HandCrawl,
    Host,
    entry,
    link,
    packed,
    paths,
    with_worker,
)

ANSWERED, UNKNOWN = -1, 0


def test_what_a_silent_worker_held_is_queued_again_in_front(crawl: HandCrawl) -> None:
    crawl.open(delay_s=180)
    living, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=1)
    silent.push(link(A, "/1"), link(A, "/2"), link(B, "/1"))
    silent.lease()
    before = crawl.state()
    assert living.reclaim() == Reclaimed(0, 0, [])
    assert crawl.state() == before
    crawl.at(2)
    assert living.reclaim() == Reclaimed(1, 2, [])
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "queued": 3, "reclaimed": 2},
        hosts={
            A: Host([0], cooling=[5], at="waiting"),
            B: Host([0], cooling=[5], at="waiting"),
        },
        waiting=[(A, 5), (B, 5)],
        queues={A: {0: ["/1'", "/2"]}, B: {0: ["/1'"]}},
        layers=[3],
    )


def test_a_heartbeat_in_time_keeps_everything_however_long_a_page_takes(crawl: HandCrawl) -> None:
    crawl.open()
    slow, other = crawl.worker("slow", timeout_minutes=2), crawl.worker()
    slow.push(link(A, "/1"))
    lease = slow.lease_one()
    for minute in range(1, 30):
        crawl.at(minute)
        slow.renew(2 * MINUTE_MS, {})
        assert other.reclaim().workers == 0
    assert slow.done(lease) == []


def test_a_url_that_was_lost_as_often_as_allowed_goes_to_the_dead_letters(crawl: HandCrawl) -> None:
    crawl.open(max_attempts=2)
    living = crawl.worker()
    living.push(link(A, "/killer", 7))
    minute = 0
    for number in (1, 2):
        victim = crawl.worker(f"victim{number}", timeout_minutes=1)
        assert len(victim.lease().leases) == 1
        minute += 2
        crawl.at(minute)
        reclaimed = living.reclaim()
    assert reclaimed == Reclaimed(1, 0, [(A, 7, entry("/killer", 2))], told=1)
    counts = {"discovered": 1, "dead": 1, "dead:worker_lost": 1, "reclaimed": 2}
    assert crawl.state() == with_worker(
        counts=counts,
        hosts={A: Host()},
        dead={(A, 7, "/killer''", "worker_lost", 1)},
        untold={"w": [(A, 7, "/killer''")]},
        layers=[1],
    )
    assert living.reclaim() == reclaimed._replace(workers=0), "until it is reported"
    assert living.reclaim(reported=1) == Reclaimed(0, 0, [], told=1)
    assert crawl.state().untold == {}


def test_what_is_told_of_lost_urls_may_be_damaged(crawl: HandCrawl) -> None:
    crawl.open()
    worker, key = crawl.worker(), crawl.key("replies")
    ours = [b"http://a", 0, entry("/1")]
    for told in (b"", b"\xc1", packed(3), packed("x", []), packed(2, [5, [1, 2], [A], ours])):
        crawl.redis.hset(key, "lost w", told)
        assert worker.reclaim().dead in ([], [(A, 0, entry("/1"))])
    assert not crawl.redis.hexists(key, "lost w") or worker.reclaim(reported=2).dead == []


def test_urls_that_were_lost_twice_come_back_one_by_one(crawl: HandCrawl) -> None:
    crawl.open(per_host=3)
    living = crawl.worker()
    living.push(*(link(A, f"/{number}") for number in range(3)))
    for number in (1, 2):
        crawl.worker(f"victim{number}", timeout_minutes=1).lease()
        crawl.at(2 * number)
        assert living.reclaim().queued == 3
    state = crawl.state()
    assert state.delayed == [(4, A, 0, f"/{number}''") for number in (2, 1, 0)]
    dues = [due for _, due in state.raw["delayed"]]
    assert [due - dues[0] for due in dues] == [0, 1000, 2000]
    living.renew(1000 * MINUTE_MS, {})
    assert len(living.lease().leases) == 1


def test_only_so_many_workers_are_buried_at_once(crawl: HandCrawl) -> None:
    crawl.open()
    workers = [crawl.worker(f"w{number}", timeout_minutes=1) for number in range(3)]
    workers[0].push(*(link(f"http://h{number}", "/") for number in range(3)))
    for worker in workers:
        worker.lease(1)
    crawl.at(2)
    reclaimer = crawl.stranger("reclaimer")
    assert [reclaimer.reclaim(2), reclaimer.reclaim(2), reclaimer.reclaim(2)] == [
        Reclaimed(2, 2, []),
        Reclaimed(1, 1, []),
        Reclaimed(0, 0, []),
    ]
    assert crawl.state().workers == {}


def test_nothing_of_a_buried_worker_remains(crawl: HandCrawl) -> None:
    crawl.open()
    silent = crawl.worker("silent", timeout_minutes=1)
    silent.push(link(A, "/1"))
    silent.lease()
    crawl.at(2)
    crawl.stranger("other").reclaim()
    state = crawl.state()
    assert (state.workers, state.about, state.leased) == ({}, {}, {})
    assert crawl.redis.hget(keys.meta(CRAWL, 0), "push:silent") is None


def test_a_reclaimed_url_goes_to_another_worker_and_ends_once(crawl: HandCrawl) -> None:
    crawl.open()
    living, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=1)
    silent.push(link(A, "/1"))
    former = silent.lease_one()
    crawl.at(2)
    living.reclaim()
    batch = living.lease()
    assert paths(batch) == ["/1'"]
    assert living.done(*batch.leases) == []
    assert silent.done(former) == [former.token]
    assert crawl.state().counts == {"discovered": 1, "done": 1, "reclaimed": 1, "late": 1}


def test_a_host_whose_worker_died_keeps_its_pause(crawl: HandCrawl) -> None:
    crawl.open(delay_s=600)
    living, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=1)
    silent.push(link(A, "/1"))
    silent.lease()
    crawl.at(2)
    living.reclaim()
    crawl.at(11)
    assert living.lease().leases == []
    crawl.at(13)
    assert len(living.lease().leases) == 1


def test_a_host_that_asks_for_a_longer_pause_than_the_crawls_keeps_it_when_its_worker_dies(
    crawl: HandCrawl,
) -> None:
    crawl.open(delay_s=180)
    living, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=21)
    silent.push(link(A, "/1"), link(A, "/2"))
    silent.done(silent.lease_one(), failed=ANSWERED, pause_ms=20 * MINUTE_MS)
    crawl.at(20.5)
    assert len(silent.lease().leases) == 1
    crawl.at(22)
    assert living.reclaim() == Reclaimed(1, 1, [])
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "done": 1, "reclaimed": 1},
        hosts={A: Host([0], cooling=[42], pages=1, at="waiting", pause=20)},
        waiting=[(A, 42)],
        queues={A: {0: ["/2'"]}},
        layers=[2],
    )


def test_a_group_rests_as_long_as_the_host_of_it_asks_for_whose_worker_died(
    crawl: HandCrawl,
) -> None:
    crawl.open(delay_s=180, group=DOMAIN)
    living, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=31)
    pages = [link(host, f"/{number}") for number in range(2) for host in (A, B)]
    silent.push(*(page._replace(group="example.com") for page in pages))
    for host, pause in ((A, 20), (B, 3)):
        lease = silent.lease_one()
        assert lease.host == host
        silent.done(lease, failed=ANSWERED, pause_ms=pause * MINUTE_MS)
        crawl.at(20.5)
    crawl.at(30)
    assert silent.lease_one().host == A
    crawl.at(32)
    living.reclaim()
    assert crawl.state().groups["example.com"].cooling == [52]


def test_only_a_host_with_a_longer_pause_of_its_own_has_it_in_its_record(crawl: HandCrawl) -> None:
    crawl.open(delay_s=180)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{number}") for number in range(5)))
    told = [(ANSWERED, 3 * MINUTE_MS + CLOCK_MS), (ANSWERED, 20 * MINUTE_MS), (UNKNOWN, 0)]
    told += [(ANSWERED, 2 * MINUTE_MS)]
    kept, sizes = [], []
    for number, (failed, pause_ms) in enumerate(told, 1):
        worker.done(worker.lease_one(), failed=failed, pause_ms=pause_ms)
        crawl.at(30 * number)
        state = crawl.state()
        kept.append(state.hosts[A].pause)
        sizes.append(len(state.raw["hosts"][A.encode()]))
    assert kept == [None, 20, 20, None]
    assert sizes[0] == sizes[3] < sizes[1]
