"""Requests as the frontier stores them, and hostile entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis.strategies as st
import msgpack
import pytest
from hypothesis import example, given
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest
from scrapy.settings import Settings

from crawlproj.frontier.meta_keys import LEASE
from crawlproj.frontier.proxies import Proxies
from crawlproj.frontier.records import (
    FORMAT,
    EntrySummary,
    RecordError,
    RequestKey,
    decode,
    encode_link,
    encode_request,
    key_of_url,
    summarise,
)
from crawlproj.urls import UrlError
from crawlproj.worker.admission import limits_of

HOST = "http://a.example"


class PagesSpider(Spider):
    name = "pages"
    note = "not a method"

    def parse_page(self, response: Any) -> None: ...

    def on_error(self, failure: Any) -> None: ...


SPIDER = PagesSpider()


def round_trip(request: Request, level: int = 0) -> Request:
    return decode(HOST, level, encode_request(request, HOST, SPIDER), SPIDER)


def entry_of(record: Any, attempts: int = 0, version: int = FORMAT) -> bytes:
    return bytes((attempts, version)) + bytes(msgpack.packb(record))


# What is stored


def test_a_link_is_its_path_and_depth_and_little_else() -> None:
    entry = encode_link("/some/page", 3)
    assert entry == b"\x00\x01\x92\xaa/some/page\x03"
    request = decode(HOST, 7, entry, SPIDER)
    assert (request.url, request.priority) == (f"{HOST}/some/page", 7)
    assert request.meta == {"depth": 3}


def test_a_link_can_tell_who_links_to_it_and_who_redirected_to_it() -> None:
    request = decode(HOST, 0, encode_link("/b", 1, f"{HOST}/a", [f"{HOST}/r"]), SPIDER)
    assert request.meta == {"depth": 1, "referer": f"{HOST}/a", "redirects": [f"{HOST}/r"]}
    assert decode(HOST, 0, encode_link("/b", 1, f"{HOST}/a"), SPIDER).meta["referer"]


def test_a_link_that_is_not_written_as_ours_are_is_made_safe_to_send() -> None:
    assert decode(HOST, 0, encode_link("/a b\r\nX: y", 1), SPIDER).url == f"{HOST}/a%20bX:%20y"


def test_a_plain_request_is_stored_like_a_link() -> None:
    request = Request(f"{HOST}/a", meta={"depth": 2})
    assert encode_request(request, HOST, SPIDER) == encode_link("/a", 2)


@pytest.mark.parametrize(
    "request_",
    [
        Request(f"{HOST}/"),
        Request(f"{HOST}/", meta={"depth": 4, "referer": f"{HOST}/from"}),
        Request(f"{HOST}/", meta={"a": {"b": [1, 2.5, None, True, b"\xff", "ü"]}, "depth": 0}),
        Request(f"{HOST}/", meta={"keys": {1: "one", None: "none", b"b": "bytes"}}),
        Request(f"{HOST}/", cb_kwargs={"page": 2, "tags": ["x"]}),
        Request(f"{HOST}/", headers={"X-One": "1", "X-Two": ["a", "b"]}),
        Request(f"{HOST}/", method="POST", body=b"\x00\xff"),
        Request(f"{HOST}/", callback=SPIDER.parse_page, errback=SPIDER.on_error),
        Request(f"{HOST}/", cookies={"session": "1"}),
        Request(f"{HOST}/", cookies=[{"name": "n", "value": "v", "domain": "d"}]),
        Request(f"{HOST}/", flags=["seen"], encoding="latin-1", dont_filter=True),
    ],
)
def test_a_request_comes_back_as_it_went(request_: Request) -> None:
    wanted = request_.replace(priority=9, meta={"depth": 0, **request_.meta})
    assert round_trip(request_, 9).to_dict(spider=SPIDER) == wanted.to_dict(spider=SPIDER)


def test_callbacks_are_those_of_the_spider_that_fetches() -> None:
    entry = encode_request(Request(f"{HOST}/", callback=SPIDER.parse_page), HOST, SPIDER)
    other = PagesSpider()
    assert decode(HOST, 0, entry, other).callback == other.parse_page


def test_the_lease_of_a_request_is_not_stored_with_it() -> None:
    entry = encode_request(Request(f"{HOST}/", meta={LEASE: (0, 7)}), HOST, SPIDER)
    assert entry == encode_link("/", 0)


def test_tuples_and_sets_come_back_as_they_were() -> None:
    value = {"a": (1, ({2}, [3, ()])), "b": {(4,), "5"}, "c": frozenset(), "d": [{6: (7,)}]}
    request = round_trip(Request(f"{HOST}/", meta={"deep": value}, cb_kwargs={"pair": (8, 9)}))
    assert (request.meta["deep"], request.cb_kwargs) == (value, {"pair": (8, 9)})


def test_a_named_tuple_comes_back_as_a_list() -> None:
    named = NamedTuple("named", [("x", int)])(1)
    assert round_trip(Request(f"{HOST}/", meta={"a": named})).meta["a"] == [1]


def test_what_stands_for_a_tuple_is_no_key_of_a_dict() -> None:
    with pytest.raises(RecordError, match="cannot be a key"):
        encode_request(Request(f"{HOST}/", meta={"a": {b"\0tuple": 5}}), HOST, SPIDER)


@pytest.mark.parametrize("url", [f"{HOST}:80/x", f"{HOST.upper()}/x", f"{HOST}?x"])
def test_a_url_that_spells_its_host_in_its_own_way_is_stored_whole(url: str) -> None:
    assert round_trip(Request(url)).url == Request(url).url


@pytest.mark.parametrize(
    "url", ["http://other.example/", "http://a.example.evil/", f"{HOST}:81/x", "data:,text"]
)
def test_a_url_in_the_queue_of_another_host_is_refused(url: str) -> None:
    with pytest.raises(RecordError):
        round_trip(Request(url))


@pytest.mark.parametrize(
    "subclass",
    [JsonRequest(f"{HOST}/", data={"a": 1}), FormRequest(f"{HOST}/", formdata={"a": "b"})],
)
def test_a_special_request_is_stored_by_what_it_sends_and_names_no_class(subclass: Request) -> None:
    entry = encode_request(subclass, HOST, SPIDER)
    assert b"_class" not in entry
    back = decode(HOST, 0, entry, SPIDER)
    assert type(back) is Request
    assert (back.method, back.body) == (subclass.method, subclass.body)
    assert back.headers["Content-Type"] == subclass.headers["Content-Type"]


PROXIES = Proxies(["http://user:secret@P.example:3128"])


@pytest.mark.parametrize("proxy", ["http://p.example:3128", "http://other:one@P.example:3128"])
def test_a_proxy_of_the_settings_is_stored_without_its_login(proxy: str) -> None:
    request = Request(f"{HOST}/", meta={"proxy": proxy}, headers={"Proxy-Authorization": "x"})
    entry = encode_request(request, HOST, SPIDER, proxies=PROXIES)
    assert not [word for word in (b"secret", b"one@", b"Authorization") if word in entry]
    back = decode(HOST, 0, entry, SPIDER, PROXIES)
    assert back.meta["proxy"] == "http://user:secret@P.example:3128"
    with pytest.raises(RecordError, match="a proxy that is none of CRAWL_PROXIES"):
        decode(HOST, 0, entry, SPIDER)


def test_what_a_middleware_or_the_environment_chose_is_left_to_them() -> None:
    noted = {"_auth_proxy": "http://o:1", "_scheme_proxy": True, "proxy": "http://o:1"}
    request = Request(f"{HOST}/", meta={**noted, LEASE: (0, 7)})
    entry = encode_request(request, HOST, SPIDER, proxies=PROXIES)
    assert entry == encode_link("/", 0)
    older = entry_of(["/", 0, "", {"meta": noted, "headers": {"Proxy-Authorization": "x"}}])
    back = decode(HOST, 0, older, SPIDER, PROXIES)
    assert (back.meta, back.headers) == ({"depth": 0}, {})


@pytest.mark.parametrize("attempts", [0, 2])
def test_scrapys_count_of_attempts_begins_anew_with_the_frontiers(attempts: int) -> None:
    entry = encode_request(Request(f"{HOST}/", meta={"retry_times": 2}), HOST, SPIDER)
    again = decode(HOST, 0, bytes([attempts]) + entry[1:], SPIDER)
    assert again.meta.get("retry_times", 0) == attempts


# What is refused


class Opaque: ...


def elsewhere(response: Any) -> None: ...


_TUPLE_KEY: dict[Any, Any] = {(1, 2): 3}


_CIRCLE: dict[str, Any] = {}
_CIRCLE["self"] = _CIRCLE


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(f"{HOST}/", callback=elsewhere), "callback and errback must be methods"),
        (Request(f"{HOST}/", errback=elsewhere), "callback and errback must be methods"),
        (Request(f"{HOST}/", meta={"o": Opaque()}), "'o' in meta of .*: a Opaque cannot be stored"),
        (Request(f"{HOST}/", meta={"a": [Opaque]}), "'a' in meta of .*: a type cannot be stored"),
        (Request(f"{HOST}/", cb_kwargs={"o": Opaque()}), "'o' in cb_kwargs of .*use text, numbers"),
        (Request(f"{HOST}/", meta=_TUPLE_KEY), "meta of .*: a tuple cannot be stored"),
        (Request(f"{HOST}/", meta={"n": 2**70}), "cannot be stored .*: Integer value out of range"),
        (Request(f"{HOST}/", meta={"s": "\ud800"}), "cannot be stored .*surrogates not allowed"),
        (Request(f"{HOST}/", cookies={"c": Opaque()}), "cannot be stored for another worker"),  # type: ignore[dict-item]
        (Request(f"{HOST}/", meta=_CIRCLE), "its meta or cb_kwargs contain themselves"),
        (Request(f"{HOST}/", meta={"depth": "deep"}), "depth in its meta must be a number"),
        (Request(f"{HOST}/", meta={"referer": b"x"}), "and referer text"),
        (Request(f"{HOST}/", meta={"proxy": "http://o:1"}), "its proxy is none of CRAWL_PROXIES"),
        (Request(f"{HOST}/", meta={"proxy": None}), "its proxy is none of CRAWL_PROXIES"),
        (Request(f"{HOST}/", body=b"x" * 300), "takes 3.. bytes .* FRONTIER_MAX_RECORD_BYTES=256"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_reason(request_: Request, message: str) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        encode_request(request_, HOST, SPIDER, max_bytes=256)
    assert str(request_)[:40] in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (b"", "cannot be read: IndexError"),
        (b"\x00", "cannot be read: IndexError"),
        (b"\x00\x02\x92\xa1/\x00", "a record of format 2: this version reads 1"),
        (b"\x00\x01", "cannot be read"),
        (b"\x00\x01\xc1", "cannot be read"),
        (b"\x00\x01" + b"\x91" * 100_000, "cannot be read"),
        (entry_of(5), "cannot be read: TypeError"),
        (entry_of([]), "cannot be read: ValueError"),
        (entry_of(["/"]), "cannot be read: ValueError"),
        (entry_of([1, 2]), "fields are not what they should be"),
        (entry_of(["/", "deep"]), "fields are not what they should be"),
        (entry_of(["/", True]), "fields are not what they should be"),
        (entry_of(["/", 0, 7]), "fields are not what they should be"),
        (entry_of(["/", 0, "", ["list"]]), "fields are not what they should be"),
        (entry_of(["no scheme", 0]), "cannot be read: UrlError: URL has no scheme"),
        (entry_of(["/", 0, "", {"_class": "os.system"}]), "unexpected keyword argument '_class'"),
        (entry_of(["/", 0, "", {"url": "http://evil/"}]), "cannot be read: TypeError"),
        (entry_of(["/", 0, "", {"priority": 10**9}]), "cannot be read: TypeError"),
        (entry_of(["/", 0, "", {"meta": "text"}]), "cannot be read: TypeError"),
        (entry_of(["/", 0, "", {"meta": {"proxy": "http://o:1"}}]), "none of CRAWL_PROXIES"),
        (entry_of(["/", 0, "", {"meta": {"proxy": 5}}]), "none of CRAWL_PROXIES"),
        (entry_of(["/", 0, "", {"callback": "__class__"}]), "names no method"),
        (entry_of(["/", 0, "", {"callback": ["parse"]}]), "names no method"),
        (entry_of(["/", 0, "", {"callback": "note"}]), "'pages' does not have: 'note'"),
        (entry_of(["/", 0, "", {"errback": "missing"}]), "'pages' does not have: 'missing'"),
    ],
)
def test_an_entry_that_is_not_ours_is_refused_with_its_reason(entry: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        decode(HOST, 0, entry, SPIDER)
    assert "\n" not in str(caught.value)


records = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["meta", "callback", "url", "headers", "body", "method", "cookies"])
            | st.text(),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.binary() | st.builds(entry_of, records) | st.builds(entry_of, st.lists(records)))
@example(entry_of(["/", 0, "", {"headers": {"a": {}}}]))
@example(entry_of(["/", 0, "", {"meta": {"a": {b"\0set": [[]]}}}]))
@example(entry_of(["/", 0, "", {b"\0tuple": 5}]))
@example(entry_of(["/", 0, "", {"cookies": 5, "flags": 7, "cb_kwargs": []}]))
@example(entry_of(["/", 0, "", {"encoding": "no-such-codec", "body": "ü"}]))
def test_no_bytes_do_more_than_be_refused(entry: bytes) -> None:
    try:
        request = decode(HOST, 0, entry, SPIDER)
    except RecordError as error:
        assert "\n" not in str(error)
    else:
        assert type(request) is Request
    assert isinstance(summarise(HOST, entry), EntrySummary)


# What reports need of an entry


def test_a_glance_tells_url_depth_referer_and_attempts() -> None:
    entry = b"\x02" + encode_link("/b", 3, f"{HOST}/a")[1:]
    assert summarise(HOST, entry) == EntrySummary(f"{HOST}/b", 3, f"{HOST}/a", 2)


@pytest.mark.parametrize(("entry", "attempts"), [(b"", 0), (b"\x05", 5), (b"\x02\x01\xc1", 2)])
def test_a_glance_at_an_unreadable_entry_tells_its_host(entry: bytes, attempts: int) -> None:
    assert summarise(HOST, entry) == EntrySummary(HOST, 0, "", attempts)


def test_an_address_is_the_host_that_is_paced_and_the_key_that_is_seen() -> None:
    assert key_of_url("HTTP://A.example:80/x#y") == RequestKey(HOST, f"{HOST}/x")


def test_a_url_that_cannot_be_crawled_has_no_address() -> None:
    with pytest.raises(UrlError):
        key_of_url("mailto:a@b")


@pytest.mark.parametrize("name", ["download_maxsize", "download_timeout"])
@pytest.mark.parametrize(
    ("stored", "left"),
    [(5, 5), (10, 10), (11, None), (0, None), (-1, None), ("9", None), (float("nan"), None)],
)
def test_a_stored_request_lowers_limits_of_downloads_and_raises_none(
    name: str, stored: Any, left: int | None
) -> None:
    entry = encode_request(Request(f"{HOST}/a", meta={name: stored}), HOST, SPIDER)
    limits = limits_of(Settings({name.upper(): 10}))
    assert decode(HOST, 0, entry, SPIDER, limits=limits).meta.get(name) == left


def test_a_worker_without_a_limit_takes_any_of_a_stored_request() -> None:
    entry = encode_request(Request(f"{HOST}/a", meta={"download_maxsize": 0}), HOST, SPIDER)
    limits = limits_of(Settings({"DOWNLOAD_MAXSIZE": 0}))
    assert decode(HOST, 0, entry, SPIDER, limits=limits).meta["download_maxsize"] == 0
