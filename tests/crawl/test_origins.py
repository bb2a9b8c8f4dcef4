"""What is one site to robots.txt, scheme, name and port; and what no site can lead a crawl to."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.both_schemes import BothSchemes
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Route
from tests.servers.redis import RedisServer
from tests.servers.tls import Authority

PAGES = {"/", "/a", "/b"}


def site(disallowed: str) -> dict[str, Route]:
    root = Reply(body=b"<a href=/a>x</a><a href=/b>x</a>")
    rules = Reply(body=f"User-agent: *\nDisallow: {disallowed}".encode())
    return {"/": root, "/robots.txt": rules, "/a": Reply(body=b"a"), "/b": Reply(body=b"b")}


def paths(origin: Origin) -> list[str]:
    return sorted(request.path for request in origin.requests())


def test_http_and_https_of_one_name_and_port_each_have_their_own_robots_txt(
    fleet: Fleet, tmp_path: Path
) -> None:
    secure = Origin(site("/b"), tls=Authority(tmp_path).issue("127.0.0.1"))
    with Origin(site("/a")) as plain, secure, BothSchemes(plain, secure) as door:
        seeds = f"http://{door.host}/,https://{door.host}/"
        fleet.start({"DOWNLOAD_VERIFY_CERTIFICATES": False}, seeds=seeds, delay=0)
        assert fleet.wait() == ["finished"]
        assert paths(plain) == ["/", "/b", "/robots.txt"]
        assert paths(secure) == ["/", "/a", "/robots.txt"]
    now = fleet.status()
    assert (now["hosts"], now["done"], now["balance"]) == (2, 4, 0)
    assert now["filtered"] == {"robots": 2, "robots_txt": 2}


def test_two_ports_of_one_host_each_have_their_own_robots_txt_over_tls_too(
    fleet: Fleet, tmp_path: Path
) -> None:
    context = Authority(tmp_path).issue("127.0.0.1")
    with Origin(site("/a"), tls=context) as one, Origin(site("/b"), tls=context) as other:
        seeds = f"{one.url()},{other.url()}"
        fleet.start({"DOWNLOAD_VERIFY_CERTIFICATES": False}, seeds=seeds, delay=0)
        assert fleet.wait() == ["finished"]
        assert paths(one) == ["/", "/b", "/robots.txt"]
        assert paths(other) == ["/", "/a", "/robots.txt"]


def test_a_certificate_that_nobody_vouches_for_is_refused_by_default(
    fleet: Fleet, tmp_path: Path
) -> None:
    with Origin(site("/a"), tls=Authority(tmp_path).issue("127.0.0.1")) as origin:
        fleet.start({"ROBOTSTXT_OBEY": False}, seeds=origin.url(), delay=0)
        assert fleet.wait() == ["finished"]
        assert origin.requests() == []
    assert [row["reason"] for row in fleet.rows("failures")] == ["certificate"]


# What must not be reached: a server at an address that neither a seed nor a setting has opened.


def moved(to: str) -> Reply:
    """A redirect whose header is UTF-8 as it stands, unescaped."""
    return Reply(302, {"Location": to.encode().decode("latin-1")})


def mapped(location: str) -> Reply:
    return Reply(body=f"<urlset><url><loc>{location}</loc></url></urlset>".encode())


def names_map(location: str) -> Reply:
    return Reply(body=f"Sitemap: {location}".encode())


def entrances(secret: str) -> dict[str, dict[str, Route]]:
    """Ways by which a public site may point to it."""
    index = f"<sitemapindex><loc>{secret}/map.xml</loc></sitemapindex>".encode()
    return {
        "link": {"/": Reply(body=f"<a href={secret}/>x</a>".encode())},
        "redirect": {"/": moved(f"{secret}/")},
        "second redirect": {"/": moved("/next"), "/next": moved(f"{secret}/")},
        "base": {"/": Reply(body=f"<base href={secret}/><a href=page>x</a>".encode())},
        "robots.txt": {"/robots.txt": moved(f"{secret}/robots.txt")},
        "sitemap": {"/robots.txt": names_map(f"{secret}/map.xml")},
        "sitemap that has moved": {
            "/robots.txt": names_map("/map.xml"),
            "/map.xml": moved(f"{secret}/map.xml"),
        },
        "sitemap index": {
            "/robots.txt": names_map("/map.xml"),
            "/map.xml": Reply(body=index),
        },
        "page of a sitemap": {
            "/robots.txt": names_map("/map.xml"),
            "/map.xml": mapped(f"{secret}/page"),
        },
    }


@pytest.mark.parametrize("allowed", ["", "loopback"])
def test_nothing_leads_to_an_address_that_is_not_open(
    tmp_path: Path, redis_server: RedisServer, allowed: str
) -> None:
    """The seeds are named localhost, which opens that name and not the address behind it."""
    settings = {
        "CRAWL_SITEMAPS": True,
        "CRAWL_ALLOW_ADDRESSES": allowed,
        "FRONTIER_MAX_ATTEMPTS": 2,
        "POLITENESS_BACKOFF": 0.1,
    }
    with ExitStack() as stack:
        anything = Reply(body=b"secret")
        secret = stack.enter_context(Origin({"/robots.txt": Reply(404)}, default=anything))
        doors = [
            stack.enter_context(Origin({"/": Reply(), **routes}))
            for routes in entrances(secret.url("")).values()
        ]
        fleet = stack.enter_context(Fleet(tmp_path, redis_server.url))
        named = [door.url("/").replace("127.0.0.1", "localhost") for door in doors]
        fleet.start(settings, seeds=",".join(named), scope="any", delay=0)
        assert fleet.wait() == ["finished"]
        now = fleet.status()
        met = {one.path for one in secret.requests()}
    assert met == ({"/robots.txt", "/", "/page", "/map.xml"} if allowed else set())
    assert (now["balance"], now["queued"], now["leased"]) == (0, 0, 0)
    refused = {"address", "robots_unreachable"} & set(now["filtered"])
    assert bool(refused) is not bool(allowed)


def test_redirects_of_pages_robots_txt_and_sitemaps_lead_to_names_beyond_ascii(
    fleet: Fleet,
) -> None:
    rules = b"User-agent: *\nDisallow: /private\nSitemap: /map.xml"
    pages = b"<urlset><url><loc>/mapped</loc></url></urlset>"
    routes: dict[str, Route] = {
        "/robots.txt": moved("/roböter.txt"),
        "/rob%C3%B6ter.txt": Reply(body=rules),
        "/map.xml": moved("/plän.xml"),
        "/pl%C3%A4n.xml": Reply(headers={"Content-Type": "text/xml"}, body=pages),
        "/": moved("/café"),
        "/caf%C3%A9": Reply(body=b"<a href=/private>x</a>"),
        "/mapped": Reply(),
    }
    with Origin(routes) as origin:
        fleet.start({"CRAWL_SITEMAPS": "True"}, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
        assert paths(origin) == sorted(routes)


def test_pages_that_refresh_to_each_other_are_followed_and_fetched_once(fleet: Fleet) -> None:
    def refresh(to: str) -> Reply:
        return Reply(body=f"<meta http-equiv=refresh content='0; url={to}'>".encode())

    with Origin({"/": refresh("/a"), "/a": refresh("/b"), "/b": refresh("/")}) as origin:
        fleet.start({"ROBOTSTXT_OBEY": "False"}, seeds=origin.url("/"), delay=0)
        assert fleet.wait() == ["finished"]
        assert paths(origin) == sorted(PAGES)
