"""Who may ask the dashboard for what: by Host, Origin and token."""

from __future__ import annotations

import pytest

from crawlproj.operate.dashboard.guard import HEADERS, Guard, is_loopback

LOCAL = Guard("secret", is_public=False, names={"proxy.example"})
PUBLIC = Guard("secret", is_public=True, names={"crawler.example"})


def status(guard: Guard, path: str = "/", method: str = "GET", **headers: str) -> int:
    """The status of a refusal, 200 for none; a header's name is written with underscores."""
    given = {"host": "127.0.0.1:8765"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    cookies = {guard.cookie: given.pop("cookie")} if "cookie" in given else {}
    refusal = guard.refusal(method, path, given, cookies)
    return refusal.status if refusal else 200


@pytest.mark.parametrize(
    ("host", "local", "public"),
    [
        ("127.0.0.1:8765", 200, 401),
        ("127.0.0.9", 200, 401),
        ("localhost:8765", 200, 401),
        ("LOCALHOST.", 200, 401),
        ("[::1]:8765", 200, 401),
        ("proxy.example", 200, 421),
        ("crawler.example:80", 421, 401),
        ("192.0.2.7:8765", 421, 401),
        ("attacker.example:8765", 421, 421),
        ("localhost.attacker.example", 421, 421),
        ("127.0.0.1.attacker.example", 421, 421),
        ("127.0.0.1@attacker.example", 421, 421),
        ("attacker.example/127.0.0.1", 421, 421),
        ("127.0.0.1:port", 421, 421),
        ("", 421, 421),
    ],
)
def test_a_host_that_is_not_ours_is_refused_before_anything_else(
    host: str, local: int, public: int
) -> None:
    assert (status(LOCAL, host=host), status(PUBLIC, host=host)) == (local, public)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:8765", 200),
        ("http://127.0.0.1:1", 403),
        ("http://attacker.example", 403),
        ("null", 403),
        ("file://", 403),
        ("http://[", 403),
        ("http://127.0.0.1:8765/path", 403),
        ("", 403),
    ],
)
def test_another_origin_is_refused_even_with_the_token(origin: str, expected: int) -> None:
    assert status(LOCAL, "/api/crawls", origin=origin) == expected
    sent = {"origin": origin, "x_crawl_token": "secret"}
    assert status(LOCAL, "/api/do/c/stop", "POST", **sent) == expected
    assert status(PUBLIC, "/api/do/c/stop", "POST", **sent) == expected


def test_what_a_browser_calls_cross_site_is_refused_but_for_a_link_to_the_page() -> None:
    assert status(LOCAL, "/api/crawls", sec_fetch_site="cross-site") == 403
    assert status(LOCAL, "/events", sec_fetch_site="same-site") == 403
    assert status(LOCAL, "/", sec_fetch_site="cross-site") == 200
    assert status(LOCAL, "/events", sec_fetch_site="same-origin") == 200


def test_every_action_needs_the_token_in_a_header_also_on_loopback() -> None:
    for guard in (LOCAL, PUBLIC):
        for method in ("POST", "PUT", "DELETE"):
            assert status(guard, "/api/do/c/stop", method) == 403
            assert status(guard, "/api/do/c/stop", method, cookie="secret") == 403
            assert status(guard, "/api/do/c/stop", method, x_crawl_token="wrong") == 403
            assert status(guard, "/api/do/c/stop", method, x_crawl_token="secret") == 200
            assert status(guard, "/api/do/c/stop", method, authorization="Bearer secret") == 200


@pytest.mark.parametrize("path", ["/", "/events", "/metrics", "/api/status/c", "/static/app.js"])
def test_beyond_loopback_nothing_is_shown_without_the_token(path: str) -> None:
    assert status(PUBLIC, path) == 401
    assert status(PUBLIC, path, cookie="wrong") == 401
    assert status(PUBLIC, path, authorization="Basic secret") == 401
    assert status(PUBLIC, path, authorization="Bearer secret") == 200
    assert status(PUBLIC, path, cookie="secret") == 200


def test_whether_it_is_well_is_told_to_all_who_know_where_it_is() -> None:
    assert status(PUBLIC, "/healthz") == 200
    assert status(PUBLIC, "/healthz", host="attacker.example") == 421


def test_no_script_and_no_style_may_stand_in_the_page() -> None:
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
