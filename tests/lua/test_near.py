"""find_near.lua: which page, met before, another is a near-copy of."""

from __future__ import annotations

import random

import pytest
from redis import Redis

from crawlproj.discover.fingerprint import PLACES, bands
from crawlproj.frontier import near_index
from crawlproj.frontier.near_index import Fingerprinted, first_near
from tests.lua.helpers import HandCrawl, Worker

FIRST = bytes(random.Random(1).choices(range(1, 256), k=PLACES))
OTHER = bytes(random.Random(2).choices(range(1, 256), k=PLACES))
MOST_APART = round((1 - near_index.LEAST_RESEMBLANCE) * PLACES)


def changed(found: bytes, places: int) -> bytes:
    """The last places of it are others."""
    kept = len(found) - places
    return found[:kept] + bytes(place % 255 + 1 for place in found[kept:])


@pytest.fixture
def worker(crawl: HandCrawl) -> Worker:
    crawl.open()
    return crawl.worker()


def ask(worker: Worker, *pages: tuple[str, bytes]) -> list[str]:
    asked = [Fingerprinted(url, found, bands(found)) for url, found in pages]
    return worker.run(first_near([worker.shard], asked))


def test_a_page_is_a_near_copy_of_one_met_before_by_any_worker(
    crawl: HandCrawl, worker: Worker
) -> None:
    assert ask(worker, ("/a", FIRST), ("/b", OTHER)) == ["", ""]
    another = crawl.worker("another")
    near, far = changed(FIRST, MOST_APART), changed(FIRST, MOST_APART + 1)
    assert ask(another, ("/c", near), ("/d", far), ("/e", OTHER)) == ["/a", "", "/b"]


def test_pages_of_one_question_are_compared_with_each_other(worker: Worker) -> None:
    assert ask(worker, ("/a", FIRST), ("/b", FIRST)) == ["", "/a"]


def test_a_question_that_is_asked_again_has_the_same_answer(worker: Worker) -> None:
    pages = (("/a", FIRST), ("/b", FIRST), ("/c", OTHER))
    assert ask(worker, *pages) == ask(worker, *pages) == ["", "/a", ""]


def test_of_several_the_nearest_is_named(worker: Worker) -> None:
    far = changed(FIRST, MOST_APART + 1)
    assert ask(worker, ("/a", FIRST), ("/b", far)) == ["", ""]
    assert ask(worker, ("/c", changed(FIRST, MOST_APART))) == ["/b"]


def test_near_copies_are_not_kept_and_the_others_take_little(
    redis: Redis, crawl: HandCrawl
) -> None:
    crawl.open()
    worker, key = crawl.worker(), crawl.key("near")
    ask(worker, ("/a", FIRST))
    kept = redis.hlen(key)
    ask(worker, *((f"/copy/{number}", changed(FIRST, number % 9)) for number in range(50)))
    assert redis.hlen(key) == kept


def test_of_a_page_that_changes_only_the_first_version_is_kept(
    redis: Redis, crawl: HandCrawl
) -> None:
    crawl.open()
    worker, key = crawl.worker(), crawl.key("near")
    ask(worker, ("/a", FIRST))
    kept, dice = redis.hgetall(key), random.Random(4)
    for _ in range(20):
        found = dice.randbytes(PLACES)
        version = Fingerprinted("/a", found, bands(found), is_revisit=True)
        assert worker.run(first_near([worker.shard], [version])) == [""]
    assert redis.hgetall(key) == kept
    assert ask(worker, ("/b", FIRST)) == ["/a"]


def test_places_that_are_empty_in_both_do_not_make_pages_alike(worker: Worker) -> None:
    one, other = FIRST[:6] + bytes(PLACES - 6), bytes(PLACES - 6) + FIRST[:6]
    assert ask(worker, ("/a", one), ("/b", other), ("/c", bytes(PLACES))) == ["", "", ""]
    assert ask(worker, ("/d", one), ("/e", bytes(PLACES))) == ["/a", ""]


def test_pages_that_share_a_band_and_nothing_else_are_bounded(
    redis: Redis, crawl: HandCrawl
) -> None:
    crawl.open()
    worker = crawl.worker()
    dice = random.Random(3)
    pages = [(f"/{n}", FIRST[:6] + dice.randbytes(PLACES - 6)) for n in range(200)]
    assert set(ask(worker, *pages)) == {""}
    assert ask(worker, ("/again", pages[0][1])) == ["/0"]


def test_what_others_have_written_into_the_index_is_passed_over(
    redis: Redis, crawl: HandCrawl
) -> None:
    crawl.open()
    worker, key = crawl.worker(), crawl.key("near")
    ask(worker, ("/a", FIRST))
    for field in redis.hkeys(key):
        if field[:1] in b"pb":
            redis.hset(key, field, b"x")
    assert ask(worker, ("/b", FIRST)) == [""]
