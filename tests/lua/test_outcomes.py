"""What settle.lua and drop_queued.lua keep of URLs that are over, where a crawl wants it."""

from __future__ import annotations

import itertools

from crawlproj.frontier import keys, outcome_records
from crawlproj.frontier.messages import Push, Settlement
from crawlproj.frontier.outcome_records import OutcomeRecord
from crawlproj.frontier.wire import pack
from tests.lua.helpers import CRAWL, MINUTE_MS, A, HandCrawl, Worker, link

WORKER = "box-1~abcd"


def page(path: str) -> Push:
    """A link as discovery makes it."""
    return link(A, path)._replace(entry=b"\0\1" + pack([path, 1]))


def kept(crawl: HandCrawl, worker: Worker, path: str) -> OutcomeRecord | None:
    found = worker.run(outcome_records.read(worker.shard, A, path))
    began_ms = int(crawl.redis.hget(crawl.key("meta"), "started_ms"))
    return found and found._replace(at_ms=(found.at_ms - began_ms) // MINUTE_MS)


def bucket_keys(crawl: HandCrawl) -> list[bytes]:
    prefix = keys.outcomes_prefix(CRAWL, 0)
    return [key for key in crawl.redis.scan_iter(count=1000) if key.startswith(prefix.encode())]


def test_it_is_known_of_what_has_ended_when_how_and_by_whom(crawl: HandCrawl) -> None:
    crawl.open(outcomes=True, seen_capacity=1000)
    worker = crawl.worker(WORKER)
    worker.push(page("/done"), page("/robots"), page("/again"), page("/dead"))
    crawl.at(5)
    verdicts = {
        "/done": Settlement(0, "done", status=200),
        "/robots": Settlement(0, "filtered", reason="robots"),
        "/again": Settlement(0, "retry"),
        "/dead": Settlement(0, "dead", reason="http_404", status=404),
    }
    for minute, path in enumerate(verdicts, 5):
        crawl.at(minute)
        lease = worker.lease_one()
        verdicts[path].token = lease.token
        worker.settle(verdicts[path])
    assert kept(crawl, worker, "/done") == OutcomeRecord(5, 200, "box-1", "")
    assert kept(crawl, worker, "/robots") == OutcomeRecord(6, 0, "box-1", "robots")
    for path in ("/again", "/dead", "/other"):
        assert kept(crawl, worker, path) is None


def test_a_late_verdict_and_a_crawl_without_it_leave_nothing(crawl: HandCrawl) -> None:
    crawl.open()
    worker = crawl.worker()
    worker.push(page("/1"))
    worker.done(worker.lease_one(), status=200)
    assert bucket_keys(crawl) == [] and kept(crawl, worker, "/1") is None
    crawl.redis.hset(crawl.key("meta"), "outcomes", 10)
    worker.settle(Settlement(77, "done", status=200))
    assert bucket_keys(crawl) == []


def test_what_a_user_deletes_is_known_too(crawl: HandCrawl) -> None:
    crawl.open(outcomes=True, seen_capacity=1000)
    worker = crawl.worker()
    one = page("/1")
    worker.push(one)
    worker.call("drop_queued", [A, 0, pack([one.entry]), pack([one.entry])])
    assert kept(crawl, worker, "/1") == OutcomeRecord(0, 0, "scrapy drop", "deleted")


def test_the_next_crawl_begins_without_what_was_kept_of_the_last(crawl: HandCrawl) -> None:
    crawl.open(outcomes=True, seen_capacity=100_000)
    worker = crawl.worker()
    worker.push(*(page(f"/{n}") for n in range(100)))
    for _ in itertools.takewhile(bool, iter(lambda: _settle_some(crawl, worker), 0)):
        pass
    assert len(bucket_keys(crawl)) > 90
    worker.leave()
    assert worker.finish() == "finished"
    crawl.open(run="another")
    assert bucket_keys(crawl) == []
    assert not crawl.redis.hexists(crawl.key("meta"), "outcomes")


def _settle_some(crawl: HandCrawl, worker: Worker) -> int:
    leases = worker.lease().leases
    worker.done(*leases, status=200)
    return len(leases)


def test_a_url_takes_about_20_bytes(crawl: HandCrawl) -> None:
    urls = 64 * 20
    crawl.open(outcomes=True, seen_capacity=urls, per_host=10_000)
    worker = crawl.worker(WORKER, timeout_minutes=10**6)
    crawl.at(200_000)  # half a year later, when seconds take five bytes
    worker.push(*(page(f"/{n}") for n in range(urls)))
    while _settle_some(crawl, worker):
        pass
    taken = sum(crawl.redis.memory_usage(key, samples=0) for key in bucket_keys(crawl))
    assert {crawl.redis.object("encoding", key) for key in bucket_keys(crawl)} == {b"listpack"}
    assert 14 < taken / urls < 22, taken / urls
