"""Hosts that share one pace or one page budget: the group stands in line for them."""

from __future__ import annotations

from typing import Any

import pytest

from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.levels import MOVED
from crawlproj.frontier.messages import Push, Settlement
from crawlproj.frontier.plan import ADDRESS, DOMAIN, HOST
from tests.lua.helpers import (
    MINUTE_MS,
    ROBOTS_TXT,
    A,
    B,
    C,
    Group,
    HandCrawl,
    Host,
    Worker,
    link,
    paths,
    shown,
    with_worker,
)

G = "example.com"
OVERLOADED = 2


def member(host: str, path: str, level: int = 0, per_host: int = 0) -> Push:
    return link(host, path, level)._replace(group=G, per_host=per_host)


def hosts(worker: Worker, wanted: int = 100) -> list[str]:
    return [lease.host for lease in worker.lease(wanted).leases]


def test_one_request_is_out_for_all_hosts_of_a_group(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(member(A, "/1"), member(B, "/1"), link(C, "/1"))
    assert hosts(worker) == [A, C]
    assert crawl.state() == with_worker(
        counts={"discovered": 3, "queued": 1, "leased": 2},
        hosts={A: Host(out=1, group=G), B: Host([0], at="ready", group=G), C: Host(out=1)},
        groups={G: Group(out=1, line=[B])},
        queues={B: {0: ["/1"]}},
        leased={"w": {1: (A, 0, "/1"), 2: (C, 0, "/1")}},
        layers=[3],
    )


def test_the_group_rests_after_a_request_to_any_of_its_hosts(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(member(A, "/1"), member(B, "/1"))
    worker.done(worker.lease_one(), pause_ms=5 * MINUTE_MS)
    assert worker.lease().leases == []
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 1, "done": 1},
        hosts={A: Host(pages=1, group=G), B: Host([0], at="ready", group=G)},
        groups={G: Group(cooling=[5], pages=1, at="waiting", line=[B])},
        waiting=[(G, 5)],
        queues={B: {0: ["/1"]}},
        layers=[2],
    )
    crawl.at(6)
    assert hosts(worker) == [B]


def test_hosts_of_a_group_take_turns_and_the_best_comes_first(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(*(member(A, f"/{n}") for n in range(2)), *(member(B, f"/{n}") for n in range(2)))
    worker.push(member(C, "/best", 5))
    turns = []
    while leases := worker.lease(1).leases:
        turns.append(leases[0].host)
        worker.done(*leases)
    assert turns == [C, A, B, A, B]


def test_a_group_stands_among_hosts_by_its_best_url(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(link(C, "/1", 3), member(A, "/1", 1), member(B, "/1", 4))
    assert crawl.state().ready == [G, C]
    assert hosts(worker) == [B, C]


def test_a_group_may_have_connections_of_its_own(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN, per_host=1)
    worker = crawl.worker()
    worker.push(*(member(host, f"/{n}", per_host=3) for host in (A, B) for n in range(4)))
    leases = worker.lease().leases
    assert crawl.state().groups == {G: Group(out=3, per=3, line=[B, A])}
    worker.done(leases[0], per_host=1)
    assert worker.lease().leases == []
    assert crawl.state().groups == {G: Group(out=2, pages=1, line=[B, A])}


def test_an_overloaded_server_holds_the_group_and_a_failing_one_only_itself(
    crawl: HandCrawl,
) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(*(member(host, f"/{n}") for host in (A, B) for n in range(3)))
    worker.done(worker.lease_one(), failed=1, hold_ms=5 * MINUTE_MS)
    assert crawl.state().waiting == [(A, 5)]
    worker.done(worker.lease_one(), failed=OVERLOADED, hold_ms=9 * MINUTE_MS)
    assert crawl.state().waiting == [(A, 5), (G, 9)]
    crawl.at(6)
    assert worker.lease().leases == []
    assert crawl.state().groups[G].line == [B, A]
    crawl.at(10)
    assert hosts(worker) == [B]


def test_a_lost_worker_gives_the_groups_connection_back(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN, delay_s=60)
    worker, silent = crawl.worker(), crawl.worker("silent", timeout_minutes=1)
    silent.push(member(A, "/1"), member(B, "/1"))
    silent.lease()
    crawl.at(2)
    assert worker.reclaim()[:2] == (1, 1)
    assert crawl.state().groups == {G: Group(cooling=[3], at="waiting", line=[B, A])}
    crawl.at(4)
    assert hosts(worker) == [B]


# The group becomes known later


def test_a_host_that_turns_out_to_belong_to_a_group_keeps_its_pace(crawl: HandCrawl) -> None:
    crawl.open(group=ADDRESS)
    worker = crawl.worker()
    worker.push(link(A, "/1"), link(B, "/1"))
    first, second = worker.lease().leases
    assert (first.group, second.group) == ("", "")
    address = {"group": "192.0.2.1"}
    worker.settle(*(Settlement(one.token, "return", **address) for one in (first, second)))
    assert crawl.state() == with_worker(
        counts={"discovered": 2, "queued": 2},
        hosts={one: Host([0], at="ready", group="192.0.2.1") for one in (A, B)},
        groups={"192.0.2.1": Group(at="ready", line=[A, B])},
        ready=["192.0.2.1"],
        queues={A: {0: ["/1"]}, B: {0: ["/1"]}},
        layers=[2],
    )
    lease = worker.lease_one()
    assert (lease.host, lease.group) == (A, "192.0.2.1")
    assert worker.lease().leases == []
    worker.done(lease)
    assert hosts(worker) == [B]


def test_a_lease_that_was_taken_before_the_group_was_known_is_not_counted_to_it(
    crawl: HandCrawl,
) -> None:
    crawl.open(group=ADDRESS, per_host=2)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{n}") for n in range(4)))
    first, second = worker.lease().leases
    worker.settle(Settlement(first.token, "return", group="192.0.2.1"))
    assert crawl.state().groups["192.0.2.1"].out == 0
    worker.done(second)
    assert crawl.state().groups["192.0.2.1"].out == 0


# Page budgets of domains


def test_a_domain_gets_no_more_pages_than_its_budget(crawl: HandCrawl) -> None:
    crawl.open(pages_per_domain=3, per_host=2)
    worker = crawl.worker()
    worker.push(*(member(host, f"/{n}") for host in (A, B, C) for n in range(2)))
    first = worker.lease().leases
    assert len(first) == 3
    worker.settle(Settlement(first[0].token, "dead", reason="http_404"))
    second = worker.lease().leases
    assert len(second) == 1
    worker.done(*first[1:], *second)
    assert worker.lease().leases == []
    assert crawl.state().counts == {
        "discovered": 6,
        "done": 3,
        "dead": 1,
        "dead:http_404": 1,
        "filtered:domain_limit": 2,
    }
    assert worker.finish() == "finished"


def test_hosts_keep_their_own_pace_within_a_domains_budget(crawl: HandCrawl) -> None:
    crawl.open(pages_per_domain=100)
    worker = crawl.worker()
    worker.push(*(member(host, f"/{n}") for host in (A, B) for n in range(2)))
    leases = worker.lease().leases
    assert [lease.host for lease in leases] == [A, B]
    worker.done(*leases, pause_ms=5 * MINUTE_MS)
    assert crawl.state().waiting == [(A, 5), (B, 5)]


def test_links_to_a_domain_without_budget_are_dropped_as_they_come(crawl: HandCrawl) -> None:
    crawl.open(pages_per_domain=1)
    worker = crawl.worker()
    worker.push(member(A, "/1"))
    worker.done(worker.lease_one())
    worker.push(*(member(f"http://h{n}", "/") for n in range(20)))
    assert crawl.state().counts == {"discovered": 21, "done": 1, "filtered:domain_limit": 20}


@pytest.mark.parametrize("group", [HOST, DOMAIN])
def test_a_robots_txt_that_has_moved_here_does_not_depend_on_the_domains_budget(
    crawl: HandCrawl, group: str
) -> None:
    crawl.open(pages_per_domain=1, group=group, delay_s=60)
    worker = crawl.worker()
    worker.push(member(A, "/1"), member(A, "/2"))
    worker.done(worker.lease_one(), pause_ms=MINUTE_MS)
    worker.push(
        member(C, "/robots.txt", ROBOTS_TXT), member(B, "/1", MOVED), member(B, "/2", MOVED)
    )
    fetched = []
    for minute in (2, 4, 6):
        crawl.at(minute)
        for lease in worker.lease().leases:
            fetched.append(lease.host + shown(lease.entry))
            ended = Settlement(lease.token, "filtered", pause_ms=MINUTE_MS, reason="robots_txt")
            worker.settle(ended)
    assert fetched == [f"{B}/1", f"{B}/2"]
    assert crawl.state().counts["filtered:domain_limit"] == 2
    assert worker.finish() == "finished"


def test_a_spent_domain_that_lends_its_rules_keeps_its_pace_and_is_not_looked_at_in_vain(
    crawl: HandCrawl,
) -> None:
    crawl.open(pages_per_domain=1, group=DOMAIN)
    worker = crawl.worker()
    worker.push(member(A, "/1"))
    worker.done(worker.lease_one(), pause_ms=5 * MINUTE_MS)
    worker.push(member(B, "/1", MOVED))
    batch = worker.lease()
    assert batch.leases == []
    assert batch.next_due_ms > 4 * MINUTE_MS
    assert crawl.state().waiting == [(G, 5)]
    crawl.at(6)
    assert hosts(worker) == [B]


def test_a_farm_of_hosts_is_dropped_some_at_a_call(crawl: HandCrawl) -> None:
    crawl.geometry = Geometry(5000, 1e-7)
    crawl.open(pages_per_domain=1)
    worker = crawl.worker()
    worker.push(*(member(f"http://h{n}", "/") for n in range(1200)))
    worker.done(worker.lease_one())
    calls = [worker.lease(1) for _ in range(4)]
    assert [batch.leases for batch in calls] == [[]] * 4
    assert [batch.next_due_ms for batch in calls] == [0, 0, None, None]
    assert crawl.state().counts["filtered:domain_limit"] == 1199
    assert worker.finish() == "finished"


def test_queues_of_hosts_that_stand_behind_their_group_are_filtered_too(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(*(member(host, f"/{n}") for host in (A, B) for n in range(2)), link(C, "/1"))
    assert worker.filter_queued("page_limit", 1) == 2
    assert worker.filter_queued("page_limit", 5) == 3
    assert crawl.state().counts == {"discovered": 5, "filtered:page_limit": 5}


# Damage


@pytest.mark.parametrize("damaged", [b"", b"\xc1", b"plain text"])
def test_a_damaged_group_is_made_anew_from_its_leases(crawl: HandCrawl, damaged: bytes) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(member(A, "/1"), member(B, "/1"))
    lease = worker.lease_one()
    crawl.redis.hset(crawl.key("groups"), G, damaged)
    worker.push(member(A, "/2"))
    assert worker.lease().leases == []
    worker.done(lease)
    assert crawl.state().groups == {G: Group(pages=1, at="ready", line=[B, A])}
    assert crawl.state().counts["corrupt"] == 1


def test_a_damaged_host_comes_back_into_its_group_with_its_next_link(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(member(A, "/1"), member(B, "/1"))
    lease = worker.lease_one()
    crawl.redis.hset(crawl.key("hosts"), B, b"\xc1")
    worker.push(member(B, "/2"))
    assert worker.lease().leases == []
    worker.done(lease)
    assert paths(worker.lease()) == ["/1"]


def test_a_lease_that_was_damaged_frees_its_group(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    worker = crawl.worker()
    worker.push(member(A, "/1"), member(B, "/1"))
    lease = worker.lease_one()
    crawl.redis.hset(crawl.key("leased", "w"), lease.token, b"\xc1")
    assert worker.done(lease) == [lease.token]
    assert hosts(worker) == [B]


def test_beginning_again_leaves_nothing_of_the_groups_before(crawl: HandCrawl) -> None:
    crawl.open(group=DOMAIN)
    crawl.worker().push(member(A, "/1"), member(B, "/1"))
    crawl.redis.hdel(crawl.key("meta"), "epoch")
    crawl.open(group=DOMAIN)
    assert crawl.state().groups == {}
    assert not [key for key in crawl.state().raw if key.startswith("line")]


# Hosts alone


def probing(failed: int) -> dict[str, Any]:
    return {"verdict": "retry", "failed": failed, "hold_ms": MINUTE_MS, "delay_ms": 0}


def test_a_host_that_fails_is_probed_by_one_request_at_a_time(crawl: HandCrawl) -> None:
    crawl.open(per_host=3)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{n}") for n in range(6)))
    worker.settle(*(Settlement(one.token, **probing(1)) for one in worker.lease().leases))
    crawl.at(2)
    [probe] = worker.lease().leases
    worker.settle(Settlement(probe.token, **probing(1)))
    crawl.at(4)
    [probe] = worker.lease().leases
    worker.done(probe, failed=-1)
    assert len(worker.lease().leases) == 3


def test_a_host_may_have_connections_of_its_own(crawl: HandCrawl) -> None:
    crawl.open(per_host=2)
    worker = crawl.worker()
    worker.push(*(link(A, f"/{n}")._replace(per_host=3) for n in range(9)), link(B, "/1"))
    leases = worker.lease().leases
    assert [lease.host for lease in leases] == [A, A, A, B]
    worker.done(leases[0], per_host=1)
    assert crawl.state().hosts[A].per == 1
    assert worker.lease().leases == []
    worker.done(*leases[1:3], per_host=2)
    assert crawl.state().hosts[A].per is None
    assert len(worker.lease().leases) == 2
