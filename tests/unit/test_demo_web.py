"""The demo web: its structure and ground truth, the server that serves it, and its log."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from itertools import repeat
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from crawlproj.demo import DemoError, DemoServer, DemoWeb, WebSpec
from crawlproj.demo.model import Page, Redirect
from crawlproj.demo.protocol import Headers, Request
from crawlproj.demo.serve import listen
from crawlproj.demo.site import make_sites
from crawlproj.operate.request_log import Logged, fetch_counts, most_concurrent, smallest_gap_s
from tests.servers.origin import HANG, RESET, Origin, Raw, Reply, Route

SPEC = WebSpec(hosts=4, pages=80, slow_s=0.1, retry_after_s=7, crawl_delay_s=0.5)


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with DemoServer(SPEC) as server:
        yield server


def fetch(
    url: str, method: str = "GET", body: bytes | None = None
) -> tuple[int, dict[str, str], bytes]:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    with closing(http.client.HTTPConnection(parts.netloc, timeout=10)) as connection:
        connection.request(method, target, body, {"User-Agent": "tester/1"})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()


class Anchors(HTMLParser):
    """The title and the links of a page, by a parser that no other part of the project uses."""

    def __init__(self, url: str, body: bytes) -> None:
        super().__init__()
        self.title = ""
        self._in_title = False
        self.links: list[str] = []
        self._url = url
        self.feed(body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title"
        href = dict(attrs).get("href") or ""
        if tag == "a" and not href.startswith(("mailto:", "tel:", "javascript:", "#")):
            self.links.append(urldefrag(urljoin(self._url, href)).url)

    def handle_data(self, data: str) -> None:
        self.title += data if self._in_title else ""

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False


# The model


def test_the_same_spec_gives_the_same_web_wherever_it_is_served() -> None:
    one = DemoWeb(SPEC)
    two = DemoWeb(SPEC, ["http://a", "http://b", "http://c", "http://d"])
    assert one.resources == two.resources
    assert two.seeds == ["http://a/", "http://b/", "http://c/", "http://d/"]
    assert two.at(one.bases).pages == one.pages


def test_another_seed_gives_another_web() -> None:
    assert DemoWeb(SPEC).resources != DemoWeb(replace(SPEC, seed=2)).resources


def test_leaving_one_misfortune_out_keeps_the_others() -> None:
    web, without = DemoWeb(SPEC), DemoWeb(replace(SPEC, flaky=0))
    assert {url for url, page in web.pages.items() if page.delay_s} == {
        url for url, page in without.pages.items() if page.delay_s
    }
    assert not any(page.failures for page in without.pages.values())


@pytest.mark.parametrize("seed", range(1, 8))
def test_everything_is_reachable_from_the_first_root(seed: int) -> None:
    web = DemoWeb(WebSpec(seed=seed))
    expected = web.expected(web.seeds[:1], obey_robots=False)
    assert expected.pages == set(web.pages)
    assert expected.redirects | expected.non_html == {
        web.url(ref) for ref, resource in web.resources.items() if not isinstance(resource, Page)
    }
    assert expected.missing
    assert not expected.disallowed | expected.out_of_scope


@pytest.mark.parametrize("seed", range(1, 8))
def test_each_host_is_reachable_from_its_own_root_without_leaving_it(seed: int) -> None:
    web = DemoWeb(WebSpec(seed=seed, hosts=5, pages=100))
    for base, root in zip(web.bases, web.seeds, strict=True):
        expected = web.expected([root], scope="host", obey_robots=False)
        assert expected.pages == {url for url in web.pages if url.startswith(f"{base}/")}
        assert not any(url.startswith(f"{base}/") for url in expected.out_of_scope)


def test_each_url_has_exactly_one_fate() -> None:
    web = DemoWeb(replace(SPEC, private=0.3))
    expected = web.expected(web.seeds[:2], scope="host", depth=3)
    kept_from = [*expected.disallowed, *expected.out_of_scope]
    fates = [*expected.pages, *expected.redirects, *expected.missing, *expected.non_html]
    fates += kept_from
    assert len(fates) == len(set(fates))
    assert set(fates) == set(expected.depth_of)
    assert expected.disallowed and expected.out_of_scope


def test_depth_counts_links_and_no_redirects() -> None:
    web = DemoWeb(SPEC)
    expected = web.expected(web.seeds, depth=2)
    assert max(expected.depth_of.values()) == 2
    for ref, resource in web.resources.items():
        source = expected.depth_of.get(web.url(ref))
        if isinstance(resource, Redirect) and source is not None:
            assert expected.depth_of[web.url(resource.target)] <= source
    whole = web.expected(web.seeds).depth_of
    assert expected.depth_of == {url: depth for url, depth in whole.items() if depth <= 2}


def test_pages_of_a_smooth_host_lie_as_deep_as_the_spec_says() -> None:
    web = DemoWeb(WebSpec(hosts=1, pages=90, depth=6).smooth())
    assert max(web.expected(web.seeds).depth_of.values()) == 6


def test_only_hosts_with_robots_txt_disallow_anything() -> None:
    web = DemoWeb(WebSpec(hosts=4, pages=200, private=0.5, robots=0.5))
    silent = {web.bases[host] for host in range(4) if web.robots_txt(host) is None}
    disallowed = web.expected(web.seeds).disallowed
    assert len(silent) == 2
    assert disallowed
    assert all("/private/" in url and "/press/" not in url for url in disallowed)
    assert not {url.partition("/private/")[0] for url in disallowed} & silent


def test_all_fractions_can_be_zero() -> None:
    web = DemoWeb(SPEC.smooth())
    expected = web.expected(web.seeds[:1])
    assert expected.fetched == expected.pages == set(web.pages)
    assert len(web.pages) == SPEC.pages
    assert not any(page.failures or page.delay_s for page in web.pages.values())


def test_redirects_chain_and_leave_their_host() -> None:
    web = DemoWeb(SPEC)
    redirects = {ref: it for ref, it in web.resources.items() if isinstance(it, Redirect)}
    assert any(redirect.target in redirects for redirect in redirects.values())
    assert any(redirect.target.host != ref.host for ref, redirect in redirects.items())


def test_bench_pages_have_57_links_and_about_11_kilobytes() -> None:
    web = DemoWeb(WebSpec.bench(pages=2_000))
    assert {len(web.links(url)) for url in web.pages} == {57}
    assert {len(set(page.links)) for page in web.pages.values()} == {27}
    (site,) = make_sites(web)
    replies = [site.answer(Request(0.0, "GET", ref.path, Headers())) for ref in web.resources]
    sizes = [sum(map(len, reply.body)) for reply in replies]
    assert 10_500 < min(sizes) <= max(sizes) < 11_500


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"flaky": 1.5}, "flaky=1.5: a fraction from 0 to 1 is needed"),
        ({"hosts": 0}, "hosts=0: 1 or more is needed"),
        ({"hosts": 9, "pages": 3}, "pages=3: each of the 9 hosts needs one page"),
        ({"latency_s": -1}, "latency_s=-1: 0 or more is needed"),
        ({"hosts": 70_000, "pages": 70_000}, "hosts=70000: at most 60000 fit on loopback"),
    ],
)
def test_an_impossible_spec_is_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(DemoError, match=f"^{message}$"):
        WebSpec(**wrong)


def test_a_host_too_small_for_its_pages_is_refused() -> None:
    with pytest.raises(DemoError, match="raise one of the two, or hosts"):
        DemoWeb(WebSpec(hosts=1, pages=1000, depth=1))


def test_a_seed_from_elsewhere_is_refused() -> None:
    with pytest.raises(DemoError, match="is not on this web"):
        DemoWeb(SPEC).expected(["http://example.com/"])


# The server


def test_every_page_is_served_with_its_title_and_links(demo: DemoServer) -> None:
    for url, page in demo.web.pages.items():
        if not page.failures and not page.delay_s:
            status, headers, body = fetch(url)
            anchors = Anchors(url, body)
            assert (status, anchors.title) == (200, demo.web.titles[url])
            assert anchors.links == demo.web.links(url)
            assert headers["Content-Type"] == "text/html; charset=utf-8"


def test_redirects_missing_pages_and_assets_answer_as_modelled(demo: DemoServer) -> None:
    expected = demo.web.expected(demo.seeds)
    for url in expected.redirects:
        status, headers, _ = fetch(url)
        redirect = demo.web.resources[demo.web.ref(url)]
        assert isinstance(redirect, Redirect)
        assert status == redirect.status
        assert urljoin(url, headers["Location"]) == demo.web.url(redirect.target)
    assert {fetch(url)[0] for url in expected.missing} == {404}
    for url in expected.non_html:
        status, headers, _ = fetch(url)
        assert status == 200
        assert "html" not in headers["Content-Type"]


def test_flaky_pages_answer_503_and_then_recover(demo: DemoServer) -> None:
    flaky = {url: page.failures for url, page in demo.web.pages.items() if page.failures}
    assert set(flaky.values()) == {1, 2}
    for url, failures in flaky.items():
        for _ in range(failures):
            status, headers, _ = fetch(url)
            assert (status, headers["Retry-After"]) == (503, "7")
        assert fetch(url)[0] == 200


def test_slow_pages_and_their_log_take_their_time(demo: DemoServer) -> None:
    url = next(url for url, page in demo.web.pages.items() if page.delay_s)
    fetch(url)
    *_, request = [request for request in demo.requests() if request.url == url]
    # A loop whose timers are whole milliseconds may be a moment early.
    assert request.end_s - request.start_s >= 0.095


def test_robots_txt_is_served_by_some_hosts_only(demo: DemoServer) -> None:
    assert fetch(demo.seeds[3] + "robots.txt")[0] == 404
    status, _, body = fetch(demo.seeds[0] + "robots.txt")
    assert (status, body.decode()) == (200, demo.web.robots_txt(0))
    assert b"Disallow: /private/\nAllow: /private/press/\nCrawl-delay: 0.5" in body


def test_head_has_the_headers_of_get_and_no_body(demo: DemoServer) -> None:
    _, from_get, body = fetch(demo.seeds[0])
    assert fetch(demo.seeds[0], "HEAD") == (200, from_get, b"")
    assert from_get["Content-Length"] == str(len(body))


def test_post_is_echoed_on_echo_alone(demo: DemoServer) -> None:
    status, _, body = fetch(demo.seeds[0] + "echo", "POST", b"some\r\n\r\nbody")
    assert (status, body) == (200, b"some\r\n\r\nbody")
    assert fetch(demo.seeds[0], "POST", b"x")[0] == 405
    assert fetch(demo.seeds[0], "DELETE")[0] == 405


def raw_exchange(url: str, *pieces: bytes) -> bytes:
    """Sends the pieces one by one, and reads until the server closes."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            sock.sendall(piece)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def test_pipelined_requests_are_answered_in_order_even_behind_a_slow_one(demo: DemoServer) -> None:
    slow = next(url for url, page in demo.web.pages.items() if page.delay_s)
    ref = demo.web.ref(slow)
    targets = [ref.path, "/gone", "/"]
    lines = [f"GET {target} HTTP/1.1\r\nHost: x\r\n" for target in targets]
    wire = "\r\n".join(lines) + "Connection: close\r\n\r\n"
    answer = raw_exchange(demo.seeds[ref.host], wire.encode())
    order = [answer.index(demo.web.pages[slow].title.replace("&", "&amp;").encode())]
    order += [answer.index(b"HTTP/1.1 404"), answer.rindex(b"HTTP/1.1 200")]
    assert order == sorted(order)
    assert answer.count(b"HTTP/1.1 ") == 3


def test_a_request_may_arrive_byte_by_byte(demo: DemoServer) -> None:
    wire = b"POST /echo HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
    answer = raw_exchange(demo.seeds[0], *(wire[i : i + 1] for i in range(len(wire))))
    assert answer.endswith(b"Content-Length: 3\r\n\r\nabc")


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_odd_requests_are_answered_and_the_connection_closed(
    demo: DemoServer, wire: bytes, status: bytes
) -> None:
    assert raw_exchange(demo.seeds[0], wire).startswith(b"HTTP/1.1 " + status)


def test_one_connection_serves_many_requests_and_all_are_in_the_log_at_once(
    demo: DemoServer,
) -> None:
    parts = urlsplit(demo.seeds[1])
    with closing(http.client.HTTPConnection(parts.netloc, timeout=10)) as connection:
        for number in range(20):
            connection.request("GET", f"/none/{number}", headers={"User-Agent": "many\tmany"})
            connection.getresponse().read()
            assert demo.requests()[-1].path == f"/none/{number}"
    log = [request for request in demo.requests() if request.path.startswith("/none/")]
    assert len({request.peer for request in log}) == 1
    assert {(it.host, it.method, it.status, it.user_agent) for it in log} == {
        (parts.netloc, "GET", 404, "many many")
    }
    assert smallest_gap_s(log)[parts.netloc] > 0
    assert most_concurrent(log) == {parts.netloc: 1}


def test_the_log_ends_a_request_when_the_last_byte_is_gone_not_the_first(tmp_path: Path) -> None:
    spec = WebSpec(hosts=1, pages=1, page_bytes=16_000_000).smooth()
    with DemoServer(spec, log_path=tmp_path / "log") as demo:
        parts = urlsplit(demo.seeds[0])
        with socket.create_connection((parts.hostname or "", parts.port or 80)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
            sock.recv(1)
            assert demo.requests() == []
            resumed_s = time.time()
            while sock.recv(2**20):
                pass
        (request,) = demo.requests()
    assert request.end_s > resumed_s
    assert demo.requests() == [request]


def test_a_client_that_leaves_a_slow_page_is_logged_as_gone() -> None:
    spec = replace(WebSpec(hosts=1, pages=1).smooth(), latency_s=60)
    with DemoServer(spec) as demo:
        parts = urlsplit(demo.seeds[0])
        with socket.create_connection((parts.hostname or "", parts.port or 80)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        deadline_s = time.monotonic() + 50
        while not demo.requests():
            assert time.monotonic() < deadline_s
    assert [request.status for request in demo.requests()] == [499]


def test_a_taken_port_is_named_at_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        expected = f"cannot use 127.0.0.1:{port}: Address already in use; choose another --port"
        with (
            pytest.raises(DemoError, match=expected),
            DemoServer(WebSpec(hosts=1, pages=1), port=port),
        ):
            pass


def test_an_unwritable_log_is_named_at_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(DemoError, match=r"cannot use .*/nowhere/log: No such file"),
        DemoServer(SPEC, log_path=tmp_path / "nowhere" / "log"),
    ):
        pass


def test_a_server_that_died_is_no_empty_log() -> None:
    with DemoServer(SPEC) as demo:
        os.kill(demo.pid, signal.SIGKILL)
        with pytest.raises(DemoError, match="the demo server ended with -9"):
            demo.requests()


def test_hosts_share_an_address_where_there_is_only_one() -> None:
    sockets = listen(["192.0.2.1", "192.0.2.2"], 0)
    names = {bound.getsockname() for bound in sockets}
    for bound in sockets:
        bound.close()
    assert len(names) == 2
    assert {address for address, _ in names} == {"127.0.0.1"}


def test_by_hand_it_prints_the_seeds_and_stops_on_a_signal() -> None:
    command = [sys.executable, "-m", "crawlproj.demo", "--hosts=2", "--pages=9", "--port=0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        seeds = [process.stdout.readline().strip() for _ in range(2)]
        assert [fetch(seed)[0] for seed in seeds] == [200, 200]
        process.terminate()
        assert process.wait() == 0


def test_it_does_not_outlive_whoever_started_it() -> None:
    command = [sys.executable, "-m", "crawlproj.demo", "--control", "--port=0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        process.stdin.close()
        assert process.wait() == 0


# The log's arithmetic


def logged(start_s: float, end_s: float, host: str = "a", path: str = "/") -> Logged:
    return Logged(start_s, end_s, host, "GET", path, 200, 1, "")


def test_gaps_run_from_the_last_end_to_the_next_start() -> None:
    log = [logged(5, 6), logged(1, 2), logged(2.5, 3), logged(1, 9, "b"), logged(2, 3, "b")]
    assert smallest_gap_s(log) == {"a": 0.5, "b": -7}


def test_a_long_request_overlaps_all_that_start_before_its_end() -> None:
    log = [logged(1, 9), logged(2, 3), logged(8, 10)]
    assert smallest_gap_s(log) == {"a": -7}
    assert most_concurrent(log) == {"a": 2}


def test_requests_that_touch_are_not_concurrent() -> None:
    assert most_concurrent([logged(1, 2), logged(2, 3), logged(1, 3, "b")]) == {"a": 1, "b": 1}


def test_fetches_are_counted_by_url() -> None:
    log = [logged(1, 2, path="/x"), logged(2, 3, path="/x"), logged(3, 4, "b", "/x")]
    assert fetch_counts(log) == {"http://a/x": 2, "http://b/x": 1}


# The handmade origin


def test_a_handmade_origin_answers_what_it_is_told() -> None:
    routes: dict[str, Route] = {
        "/": Reply(body=b"hello", headers={"content-type": "text/x"}, delay_s=0.05),
        "/odd": Raw(b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", then="keep", status=999),
        "/twice": lambda request: Reply(status=503 if request.attempt == 1 else 200),
    }
    with Origin(routes, address="127.0.9.1") as origin:
        status, headers, body = fetch(origin.url("/"))
        assert (status, headers["Content-Type"], body) == (200, "text/x", b"hello")
        assert [fetch(origin.url("/twice"))[0] for _ in range(2)] == [503, 200]
        assert fetch(origin.url("/odd"))[0] == 999
        assert fetch(origin.url("/robots.txt"))[0] == 404
        log = origin.requests()
    assert origin.requests() == log
    assert [request.status for request in log] == [200, 503, 200, 999, 404]
    assert log[0].end_s - log[0].start_s >= 0.05
    assert log[0].url == origin.url("/")


def test_a_handmade_origin_can_reset_hang_and_never_end() -> None:
    endless = Raw(repeat(b"x" * 65536))
    with Origin({"/reset": RESET, "/hang": HANG, "/endless": endless}) as origin:
        with pytest.raises(ConnectionResetError):
            raw_exchange(origin.url(), b"GET /reset HTTP/1.1\r\n\r\n")
        address = urlsplit(origin.url())
        with socket.create_connection((address.hostname or "", address.port or 80)) as sock:
            sock.sendall(b"GET /endless HTTP/1.1\r\n\r\n")
            assert sum(len(sock.recv(2**20)) for _ in range(50)) > 65536
        sock = socket.create_connection((address.hostname or "", address.port or 80))
        sock.sendall(b"GET /hang HTTP/1.1\r\n\r\n")
        sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            sock.recv(1)
    assert sock.recv(1) == b""
    sock.close()
    assert sorted(it.path for it in origin.requests()) == ["/endless", "/hang", "/reset"]
