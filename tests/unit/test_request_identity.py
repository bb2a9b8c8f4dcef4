"""What tells requests of one URL from each other."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from scrapy import Request, Spider
from scrapy.http import JsonRequest

from crawlproj.frontier.meta_keys import REQUEST
from crawlproj.frontier.records import decode, encode_link, encode_request, encode_visited
from crawlproj.frontier.request_identity import carry_identity, identity_of

HOST = "http://a.example"
SPIDER = Spider("pages")
URL = f"{HOST}/page"


def stored(request: Request) -> bytes:
    return encode_request(request, HOST, SPIDER)


def packed(*record: Any) -> bytes:
    return b"\0\1" + bytes(msgpack.packb(list(record)))


def test_requests_that_differ_in_anything_that_is_stored_are_told_apart() -> None:
    requests = [
        Request(URL),
        Request(URL, method="HEAD"),
        *(JsonRequest(URL, data={"page": page}) for page in range(2)),
        *(Request(URL, cb_kwargs={"i": i}) for i in range(2)),
        *(Request(URL, headers={"Accept-Language": one}) for one in ("de", "en")),
        *(Request(URL, meta={"cookiejar": jar}) for jar in range(2)),
        *(Request(URL, meta={"depth": depth}, dont_filter=True) for depth in range(2)),
    ]
    assert len({identity_of(stored(request)) for request in requests}) == len(requests)


@pytest.mark.parametrize("entry", [stored(JsonRequest(URL, data=1)), encode_link("/page", 3)])
def test_a_request_is_the_same_in_all_its_attempts_and_visits(entry: bytes) -> None:
    known_by = identity_of(entry)
    assert identity_of(b"\7" + entry[1:]) == known_by
    assert identity_of(encode_visited(entry, 5, "a visit")) == known_by
    assert carry_identity(entry, b"\7" + entry[1:]) == b"\7" + entry[1:]
    tried = Request(URL, meta={"retry_times": 1}, headers={"User-Agent": "x"}, dont_filter=True)
    again = carry_identity(entry, stored(tried))
    twice = carry_identity(again, stored(tried.replace(meta={"retry_times": 2})))
    assert identity_of(again) == identity_of(twice) == known_by
    assert identity_of(encode_visited(again, 5, "a visit")) == known_by


def test_what_a_spider_makes_of_a_request_that_was_tried_again_is_another() -> None:
    entry = carry_identity(stored(JsonRequest(URL, data=1)), stored(JsonRequest(URL, data=2)))
    request = decode(HOST, 0, entry, SPIDER)
    assert REQUEST not in request.meta
    request.meta[REQUEST] = identity_of(entry)
    assert identity_of(stored(request.replace(body=b"3"))) != identity_of(entry)


@pytest.mark.parametrize(
    "entry",
    [b"", b"\0", b"\0\1", b"\0\1\xc1", packed("/", 0, "", 7), packed("/", 0, "", {"meta": [1]})],
)
def test_an_entry_that_cannot_be_read_has_none(entry: bytes) -> None:
    assert identity_of(entry) == ""


@pytest.mark.parametrize("carried", ["x\n1 y", "0" * 17, 7, None, ["0" * 16]])
def test_an_identity_that_is_none_is_not_carried_on(carried: Any) -> None:
    found = identity_of(packed("/", 0, "", {"meta": {REQUEST: carried}}))
    assert len(found) == 16 and found != carried
