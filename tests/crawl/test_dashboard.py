"""`scrapy dashboard`: what it answers, to whom, and what it does."""

from __future__ import annotations

import http.client
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from crawlproj.frontier.messages import Settlement
from crawlproj.operate import status
from crawlproj.output.folder import prepare
from tests.contract.shared_crawl import SharedCrawl, done, web
from tests.lua.helpers import CRAWL, MINUTE_MS
from tests.servers.dashboard import DashboardProcess
from tests.servers.frontier import push_all
from tests.servers.redis import RedisServer, wait_for


@pytest.fixture
def dashboard(tmp_path: Path, redis_server: RedisServer) -> Iterator[DashboardProcess]:
    with DashboardProcess(tmp_path, redis_server.url) as dashboard:
        yield dashboard


async def plant(redis_server: RedisServer) -> None:
    """A crawl with pages that are done, dead and queued, and a worker that is alive."""
    with redis_server.client() as client:
        async with SharedCrawl(redis_server.url, client, 1) as crawl:
            mine = await crawl.join("w~1")
            await push_all(mine, web())
            leases = (await mine.lease(6)).leases
            await done(mine, leases[:4], size=100)
            await mine.settle(
                (one.shard, Settlement(one.token, "dead", reason="http_404")) for one in leases[4:]
            )
            await mine.renew(MINUTE_MS, {"timeout_ms": MINUTE_MS, "host": "m", "pid": 1})


async def test_it_answers_what_status_prints_and_metrics_and_lists_all_crawls(
    dashboard: DashboardProcess, redis_server: RedisServer
) -> None:
    assert dashboard.ask("/healthz").status == 200
    assert dashboard.ask("/api/crawls").json == []
    await plant(redis_server)
    told = dashboard.ask(f"/api/status/{CRAWL}").json
    assert told.keys() == status.as_json(status.Status("x")).keys()
    assert (told["done"], told["dead"], told["balance"], told["state"]) == (4, 2, 0, "running")
    wait_for(lambda: dashboard.ask("/api/crawls").json, "the crawl is found")
    assert f'crawl_pages_total{{crawl="{CRAWL}"}} 4' in dashboard.ask("/metrics").body.decode()
    [line] = dashboard.ask("/api/crawls").json
    assert (line["crawl"], line["done"], line["workers"]) == (CRAWL, 4, 1)
    assert dashboard.ask("/api/status/other").status == 404
    past = dashboard.ask(f"/api/history/{CRAWL}?span=hour").json
    assert past["moments"][0]["workers"] == 1
    assert dashboard.ask(f"/api/history/{CRAWL}?span=year").status == 400


async def test_what_is_asked_for_is_bounded_and_explained(
    dashboard: DashboardProcess, redis_server: RedisServer
) -> None:
    await plant(redis_server)
    hosts = dashboard.ask(f"/api/hosts/{CRAWL}?sort=pages&q=h1").json
    assert {one["host"] for one in hosts["hosts"]} == {f"http://h{n}" for n in (1, 10, 11)}
    assert dashboard.ask(f"/api/hosts/{CRAWL}?sort=shoe").status == 400
    letters = dashboard.ask(f"/api/dead/{CRAWL}?reason=http_404").json
    assert len(letters["letters"]) == 2 and letters["is_all"]
    assert dashboard.ask(f"/api/dead/{CRAWL}?reason=timeout").json["letters"] == []
    assert dashboard.ask(f"/api/why/{CRAWL}?url=http://h1/new").json["state"] == "never seen"
    assert dashboard.ask(f"/api/why/{CRAWL}?url=nonsense").json["state"] == "refused"
    host = dashboard.ask(f"/api/host/{CRAWL}?host=http://h1").json
    assert host["robots"]["verdict"] == "unknown"
    for what in ("history/other", "hosts/other", "host/other?host=http://h1", "dead/other"):
        assert dashboard.ask(f"/api/{what}").status == 404
    assert "no such crawl" in dashboard.ask("/api/why/other?url=http://h1/").json["error"]


async def test_it_does_what_the_commands_do(
    dashboard: DashboardProcess, redis_server: RedisServer
) -> None:
    await plant(redis_server)

    def state() -> str:
        with redis_server.client() as client:
            found: bytes = client.hget(f"{{{CRAWL}:0}}:meta", "state")
            return found.decode()

    assert dashboard.do(CRAWL, "pause").json["done"] and state() == "paused"
    assert dashboard.do(CRAWL, "resume").json["done"] and state() == "running"
    added = dashboard.do(CRAWL, "seeds", urls="http://new.example/\nnonsense\n# no\n").json
    assert added["text"].startswith("1 new, 0 known already, 1 refused; nonsense")
    assert dashboard.do(CRAWL, "pace", host="h1", delay=2).json["done"]
    assert dashboard.ask(f"/api/host/{CRAWL}?host=http://h1").json["paces"] == {
        "h1": {"delay": 2.0}
    }
    assert dashboard.do(CRAWL, "pace", host="h1", delay="soon").status == 400
    first, second = dashboard.ask(f"/api/dead/{CRAWL}").json["letters"]
    assert dashboard.do(CRAWL, "retry", ids=[first["id"]]).json["text"] == "1 queued again"
    assert dashboard.do(CRAWL, "forget", reason="http_404").json["done"]
    assert dashboard.do(CRAWL, "release", pattern="nothing").status == 409
    assert dashboard.do(CRAWL, "stop").json["done"] and state() == "stopping"
    assert dashboard.do("other", "stop").status == 404
    assert dashboard.do(CRAWL, "explode").status == 404
    assert second["url"] != first["url"]


@pytest.mark.parametrize("has_files", [True, False])
async def test_forgetting_where_the_crawl_has_no_files_says_what_merging_needs(
    dashboard: DashboardProcess, redis_server: RedisServer, tmp_path: Path, has_files: bool
) -> None:
    await plant(redis_server)
    folder = tmp_path / "output" / CRAWL
    if has_files:
        prepare(folder, "1")
    text = dashboard.do(CRAWL, "forget").json["text"]
    assert text.startswith("2 forgotten")
    assert (f"a note in {folder} of the dashboard's machine" in text) is not has_files
    assert list(folder.glob("forgotten-*.csv"))


async def test_a_list_of_no_dead_letters_means_none_of_them(
    dashboard: DashboardProcess, redis_server: RedisServer
) -> None:
    await plant(redis_server)
    for action in ("forget", "retry"):
        assert dashboard.do(CRAWL, action, ids=[]).status == 409
    assert len(dashboard.ask(f"/api/dead/{CRAWL}").json["letters"]) == 2


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("forget", '{"ids": 5}'),
        ("forget", '{"ids": "1-2"}'),
        ("retry", '{"ids": [{}]}'),
        ("forget", '{"reason": "\\ud800"}'),
        ("pace", '{"host": "h1", "per_host": Infinity}'),
        ("pace", '{"host": "h1", "delay": NaN}'),
        ("pace", '{"host": "h1", "delay": [1]}'),
        ("pace", '{"host": "\\ud800", "delay": 1}'),
        ("seeds", '{"urls": "http://a.example/\\ud800"}'),
        ("release", '{"pattern": "\\ud800"}'),
        ("seeds", "[" * 100_000),
    ],
)
async def test_what_cannot_be_used_is_a_400_with_all_headers_and_changes_nothing(
    dashboard: DashboardProcess, redis_server: RedisServer, action: str, body: str
) -> None:
    await plant(redis_server)
    path = f"/api/do/{CRAWL}/{action}"
    reply = dashboard.ask(path, "POST", body, X_Crawl_Token=dashboard.token)
    assert reply.status == 400 and reply.json["error"]
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert len(dashboard.ask(f"/api/dead/{CRAWL}").json["letters"]) == 2
    assert "Traceback" not in dashboard.log()


async def test_who_may_not_ask_is_refused_and_nothing_happens(
    dashboard: DashboardProcess, redis_server: RedisServer
) -> None:
    await plant(redis_server)
    stop, token = f"/api/do/{CRAWL}/stop", dashboard.token
    ask = dashboard.ask
    assert ask("/", Host="attacker.example").status == 421
    assert ask("/api/crawls", Host=f"attacker.example:{dashboard.port}").status == 421
    assert ask("/api/crawls", Origin="http://attacker.example").status == 403
    assert ask(stop, "POST").status == 403
    assert ask(stop, "POST", X_Crawl_Token="guess").status == 403
    assert ask(stop, "POST", X_Crawl_Token=token, Origin="null").status == 403
    assert ask(stop, X_Crawl_Token=token).status == 405
    assert ask(stop, "POST", "x" * 2_000_000, X_Crawl_Token=token).status == 400
    assert ask("/static/../app.py").status == 404 == ask("/static/index.html").status
    assert dashboard.ask(f"/api/status/{CRAWL}").json["state"] == "running"


async def test_on_loopback_curl_acts_with_a_token_that_the_user_has_named(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    await plant(redis_server)
    own = {"CRAWL_DASHBOARD_TOKEN": "a-long-secret"}
    as_curl_says = {"Content_Type": "application/x-www-form-urlencoded", "User_Agent": "curl/8"}
    with DashboardProcess(tmp_path, redis_server.url, env=own) as dashboard:
        pause = (f"/api/do/{CRAWL}/pause", "POST", "{}")
        assert dashboard.ask(*pause, **as_curl_says).status == 403
        said = dashboard.ask(*pause, **as_curl_says, X_Crawl_Token="a-long-secret")
        assert (said.status, said.json["done"]) == (200, True)


def test_every_reply_says_what_a_browser_may_do_with_it(dashboard: DashboardProcess) -> None:
    for path in ("/", "/static/app.js", "/api/crawls", "/nowhere", "/metrics", "/healthz"):
        headers = dashboard.ask(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_beyond_loopback_nothing_is_shown_or_done_without_the_token(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    own = {"CRAWL_DASHBOARD_TOKEN": 'a"secret'}
    with DashboardProcess(tmp_path, redis_server.url, "--host", "0.0.0.0", env=own) as dashboard:
        assert dashboard.token == 'a"secret'
        for path in ("/", "/metrics", "/api/crawls", "/events", "/static/app.js", "/nowhere"):
            reply = dashboard.ask(path)
            assert reply.status == 401, path
            assert b"secret" not in reply.body
        assert dashboard.ask("/?token=guess").status == 401
        entered = dashboard.ask("/?token=a%22secret")
        assert (entered.status, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie
        page = dashboard.ask("/", Cookie=cookie.partition(";")[0])
        assert page.status == 200 and b'content="a&quot;secret"' in page.body
        assert dashboard.ask("/metrics", Authorization='Bearer a"secret').status == 200
        assert dashboard.ask("/healthz").status == 200
        assert dashboard.ask("/login", "POST", "token=guess").status == 401
        assert dashboard.ask("/login", "POST", "token=a%22secret").status == 303


async def test_a_viewer_is_told_as_it_happens_also_that_redis_is_away(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    await plant(redis_server)
    with DashboardProcess(tmp_path, redis_server.url) as dashboard:
        connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=30)
        with closing(connection):
            connection.request("GET", f"/events?crawl={CRAWL}")
            stream = connection.getresponse()

            def news() -> dict[str, object]:
                while not (line := stream.readline()).startswith(b"data: "):
                    assert line
                found: dict[str, object] = json.loads(line.removeprefix(b"data: "))
                return found

            assert news()["value"]["done"] == 4  # type: ignore[index]
            dashboard.do(CRAWL, "pause")
            while news()["value"]["state"] != "paused":  # type: ignore[index]
                pass
            redis_server.kill()
            while not (told := news())["error"]:
                pass
            assert told["value"]["done"] == 4 and told["error_since_s"]  # type: ignore[index]
            redis_server.start()


def test_requests_that_never_end_are_ended_and_keep_nobody_out(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    begun = [b"", b"GET / HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y"]
    begun.append(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\ntoken")
    begun.append(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\n")
    with DashboardProcess(tmp_path, redis_server.url) as dashboard, ExitStack() as opened:
        resource.prlimit(dashboard.pid, resource.RLIMIT_NOFILE, (100, 100))
        sockets = []
        for number in range(150):
            one = socket.create_connection(("127.0.0.1", dashboard.port), timeout=30)
            sockets.append(opened.enter_context(one))
            with suppress(OSError):
                one.sendall(begun[number % len(begun)])
            assert number % 30 or dashboard.ask("/healthz").status == 200
        assert dashboard.ask("/healthz").status == 200
        for one in sockets[-len(begun) :]:
            with suppress(ConnectionError):
                while one.recv(4096):
                    pass
        assert len(dashboard.log()) < 1000


@pytest.mark.parametrize("given", ["taken", "99999"])
def test_a_port_that_cannot_be_had_is_said_in_a_line(
    dashboard: DashboardProcess, tmp_path: Path, redis_server: RedisServer, given: str
) -> None:
    port = str(dashboard.port) if given == "taken" else given
    with (
        pytest.raises(AssertionError, match="cannot listen on") as said,
        DashboardProcess(tmp_path, redis_server.url, "--port", port),
    ):
        pass
    assert "Traceback" not in str(said.value)
