"""What the workers of a crawl know of each other's archives, on a real Redis."""

from __future__ import annotations

from binascii import crc32
from hashlib import sha256

from crawlproj.frontier import keys, payloads
from crawlproj.operate.purge import purge
from tests.contract.shared_crawl import SharedCrawl
from tests.lua.helpers import CRAWL

A, B, C = (sha256(name).digest() for name in (b"a", b"b", b"c"))
MET = {A: (1_795_000_000, "http://a.example/"), B: (7, "https://b.example/x?y")}


async def test_a_payload_that_one_worker_has_kept_is_known_to_another(crawl: SharedCrawl) -> None:
    one, other = await crawl.join("one"), await crawl.join("other")
    await payloads.keep(one.shards, MET)
    assert await payloads.known(other.shards, [A, B, C]) == MET
    crawl.check()


async def test_what_is_none_of_ours_is_not_known(crawl: SharedCrawl) -> None:
    worker = await crawl.join("one")
    await payloads.keep(worker.shards, {A: MET[A]})
    mark = crc32(worker.shards[0].epoch.encode()).to_bytes(4, "big")
    for bad in (
        b"",
        b"123",
        b"1234",
        mark + b"1234ftp://x/",
        mark + b"1234http://x/\r\nX: y",
        mark + b"1234http://\xff",
        b"\0\0\0\0" + b"1234http://of.another.epoch/",
    ):
        for number in range(crawl.shards):
            crawl.redis.hset(keys.payloads(CRAWL, number), A[: payloads.KEY_BYTES], bad)
        assert await payloads.known(worker.shards, [A]) == {}


async def test_a_key_of_another_type_costs_nothing_but_space(crawl: SharedCrawl) -> None:
    worker = await crawl.join("one")
    names = [keys.payloads(CRAWL, number) for number in range(crawl.shards)]
    for name in names:
        crawl.redis.set(name, "not a hash")
    await payloads.keep(worker.shards, MET)
    assert await payloads.known(worker.shards, [A, B]) == {}
    for name in names:
        crawl.redis.delete(name)


async def test_a_crawl_that_was_purged_has_met_nothing(crawl: SharedCrawl) -> None:
    worker = await crawl.join("one")
    await payloads.keep(worker.shards, MET)
    await purge(worker)
    again = await crawl.join("one")
    assert await payloads.known(again.shards, [A, B]) == {}


async def test_what_a_late_worker_tells_of_the_crawl_before_is_not_referred_to(
    crawl: SharedCrawl,
) -> None:
    late = await crawl.join("late")
    await purge(late)
    worker = await crawl.join("one")
    await payloads.keep(late.shards, {A: MET[A]})
    await payloads.keep(worker.shards, {B: MET[B]})
    assert await payloads.known(worker.shards, [A, B]) == {B: MET[B]}
