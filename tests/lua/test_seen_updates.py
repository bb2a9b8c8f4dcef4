"""What workers hear of each other's pushes, with their leases."""

from __future__ import annotations

from typing import Any

import pytest

from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack
from tests.lua.helpers import A, HandCrawl, Worker, link


def warm(crawl: HandCrawl, name: str = "w") -> Worker:
    """A worker that knows its server."""
    worker = crawl.worker(name)
    worker.warm()
    return worker


class WarmsBeforeTheReply:
    """A client by which a shard learns anew who its server is while a reply is on its way."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self._client = shard, shard.client

    async def evalsha(self, *args: Any) -> Any:
        reply = await self._client.evalsha(*args)
        self._shard.client = self._client
        await self._shard.warm()
        return reply


def knows(worker: Worker, *paths: str) -> list[bool]:
    return [A + path in worker.shard.replica for path in paths]


def test_a_worker_hears_with_its_lease_what_an_earlier_push_of_another_has_brought(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    teller, other = warm(crawl, "teller"), warm(crawl, "other")
    teller.push(link(A, "/1"), link(A, "/2"))
    other.lease()
    assert knows(other, "/1", "/2") == [False, False]
    teller.push(link(A, "/3"))
    assert knows(other, "/1", "/2") == [False, False]
    other.lease()
    assert knows(other, "/1", "/2", "/3") == [True, True, False]


def test_news_are_of_what_was_new_and_heard_once(crawl: HandCrawl) -> None:
    crawl.open()
    teller, other = warm(crawl, "teller"), warm(crawl, "other")
    other.push(link(A, "/1"))
    teller.push(link(A, "/1"))
    teller.push(link(A, "/2"))
    teller.push(link(A, "/3"))
    assert [told for _, told in crawl.state().raw["seen_updates"]] == [
        {b"teller": told_of(teller, "/2")}
    ]
    reply = other.call("lease", ["other", 1, 0, "0"])
    assert reply[6] == [told_of(teller, "/2")]
    assert other.call("lease", ["other", 1, 0, reply[5]])[5:7] == [reply[5], []]
    assert teller.call("lease", ["teller", 1, 0, "0"])[5:7] == [reply[5], []]


def told_of(worker: Worker, path: str) -> bytes:
    [offsets] = worker.shard.replica.offsets(A + path)
    return pack([0, b"".join(offset.to_bytes(4, "big") for offset in offsets)])


def test_a_worker_alone_tells_nobody(crawl: HandCrawl) -> None:
    crawl.open()
    worker = warm(crawl)
    for number in range(3):
        worker.push(link(A, f"/{number}"))
    assert "seen_updates" not in crawl.state().raw


def test_where_redis_is_to_hear_of_every_link_nothing_is_told(crawl: HandCrawl) -> None:
    crawl.open(novelty="10 0.1 1 0.01")
    worker, _ = warm(crawl), warm(crawl, "other")
    for number in range(3):
        worker.push(link(A, f"/{number}"))
    assert "seen_updates" not in crawl.state().raw


def test_only_the_latest_news_are_kept_and_a_worker_hears_them_piece_by_piece(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    teller, other = warm(crawl, "teller"), warm(crawl, "other")
    for number in range(1011):
        teller.push(link(A, f"/{number}"))
    assert len(crawl.state().raw["seen_updates"]) == 1000
    other.lease(1)
    assert knows(other, "/9", "/10", "/109", "/110") == [False, True, True, False]
    other.lease(1)
    assert knows(other, "/110", "/209", "/210") == [True, True, False]


def test_news_of_many_links_are_kept_up_to_half_a_megabyte(crawl: HandCrawl) -> None:
    crawl.geometry = Geometry(10_000, 1e-9)  # many bits a link
    crawl.open()
    teller, _ = warm(crawl, "teller"), warm(crawl, "other")
    for number in range(12):
        teller.push(*(link(A, f"/{number}/{link_number}") for link_number in range(500)))
    updates = [told[b"teller"] for _, told in crawl.state().raw["seen_updates"]]
    assert 2**19 <= sum(map(len, updates)) <= 2**19 + max(map(len, updates))


def test_what_may_have_been_lost_is_not_told(crawl: HandCrawl) -> None:
    crawl.open()
    lost, restarted, _ = (warm(crawl, name) for name in ("lost", "restarted", "other"))
    lost.push(link(A, "/1"))
    crawl.redis.hset(crawl.key("meta"), "push:lost", 0)
    assert not lost.run(lost.shard.confirm_push("lost", lost.shard.client))
    lost.push(link(A, "/2"))
    restarted.push(link(A, "/3"))
    restarted.warm()
    restarted.push(link(A, "/4"))
    assert "seen_updates" not in crawl.state().raw


def test_nothing_is_told_to_another_server_than_the_one_where_it_was_pushed(
    crawl: HandCrawl,
) -> None:
    crawl.open()
    teller, _ = warm(crawl, "teller"), warm(crawl, "other")
    teller.shard.server = b"a former one"
    teller.push(link(A, "/1"))
    teller.shard.client = WarmsBeforeTheReply(teller.shard)
    teller.push(link(A, "/2"))
    teller.push(link(A, "/3"))
    assert "seen_updates" not in crawl.state().raw


def test_news_of_a_layer_that_a_worker_does_not_know_wait_until_it_does(crawl: HandCrawl) -> None:
    crawl.geometry = Geometry(2, 0.01)
    crawl.open()
    teller, other = warm(crawl, "teller"), warm(crawl, "other")
    for number in range(4):
        teller.push(link(A, f"/{number}"))
    other.lease()
    assert knows(other, "/0", "/1", "/2") == [True, True, False]
    assert other.push(link(A, "/2"), link(A, "/new")) == [False, True]


NO_OFFSETS = (7, [0], [0, b"odd"], [0, b"\xff\xff\xff\xff"], [0, None], [-1, bytes(4)], ["x", b""])


@pytest.mark.parametrize("told", [b"", b"\xc1", *map(pack, NO_OFFSETS)])
def test_news_that_cannot_be_read_are_passed_over(crawl: HandCrawl, told: bytes) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(link(A, "/1"))
    crawl.redis.xadd(crawl.key("seen_updates"), {"foreign": told})
    assert len(worker.lease().leases) == 1
    assert knows(worker, "/1", "/2") == [True, False]


def test_a_crawl_that_has_ended_or_begins_has_no_news(crawl: HandCrawl) -> None:
    crawl.open()
    teller, other = warm(crawl, "teller"), warm(crawl, "other")
    teller.push(link(A, "/1"))
    teller.push(link(A, "/2"))
    assert "seen_updates" in crawl.state().raw
    while leases := other.lease().leases:
        other.done(*leases)
    assert other.finish() == "finished"
    assert "seen_updates" not in crawl.state().raw
    crawl.redis.xadd(crawl.key("seen_updates"), {"left": "over"})
    assert crawl.open(run="another").mode == "new"
    assert "seen_updates" not in crawl.state().raw
