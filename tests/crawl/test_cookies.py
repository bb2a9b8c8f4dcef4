"""A login by one worker is a login of all: the spider of docs/cookies.md, run by real workers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from crawlproj.frontier import keys
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.origin import Origin, Raw, Reply, Request, Route

PAGES = 24
SESSION = "session=s3cret"
WORKERS = 2

FORMS = """
from scrapy import FormRequest, Spider


class FormsSpider(Spider):
    name = "members"

    async def start(self):
        for query in ("a", "b"):
            yield FormRequest(self.site + "/search", formdata={"q": query})

    def parse(self, response):
        pass
"""


def example() -> str:
    """The spider that the documentation shows."""
    text = (PROJECT / "docs" / "cookies.md").read_text(encoding="utf-8")
    return text.partition("```python\n")[2].partition("```")[0]


@pytest.fixture(autouse=True)
def spider(tmp_path: Path) -> None:
    (tmp_path / "members.py").write_text(example())


def start(fleet: Fleet, site: str) -> None:
    settings = {
        "SPIDER_MODULES": "members",
        "MEMBERS_PASSWORD": "p4ss",
        "POLITENESS_DELAY": "0",
        "POLITENESS_PER_HOST": "8",
        "CONCURRENT_REQUESTS": "2",
        "CRAWL_ALLOW_ADDRESSES": "loopback",
    }
    env = {"PYTHONPATH": os.pathsep.join(map(str, (PROJECT, fleet.folder)))}
    fleet.start(settings, spider="members", env=env, site=site)


def is_member(request: Request) -> bool:
    return SESSION in request.headers.get("cookie", "")


def members_only(request: Request) -> Reply:
    return Reply(delay_s=0.2, body=b"<title>in</title>") if is_member(request) else Reply(403)


def log_in(request: Request) -> Reply:
    if request.method != "POST" or request.body != b"user=me&password=p4ss":
        return Reply(403)
    return Reply(303, {"Location": "/account", "Set-Cookie": f"{SESSION}; Path=/; HttpOnly"})


def account_once_all_are_there(redis: Redis) -> Route:
    """What follows a login waits for the other workers, or the first would be done alone."""
    links = "".join(f"<a href=/members/{number}>{number}</a>" for number in range(PAGES))
    reply = Reply(body=links.encode()).encode()

    def chunks() -> Iterator[bytes]:
        while redis.zcard(keys.workers("members", 0)) < WORKERS:
            yield b""
        yield reply

    def answer(request: Request) -> Reply | Raw:
        held = Raw(chunks(), pause_s=0.05, then="keep", status=200)
        return held if is_member(request) else Reply(403)

    return answer


def test_the_documented_login_by_one_worker_is_a_login_of_all(fleet: Fleet, redis: Redis) -> None:
    routes: dict[str, Route] = {f"/members/{number}": members_only for number in range(PAGES)}
    account = account_once_all_are_there(redis)
    with Origin({"/login": log_in, "/account": account, **routes}) as origin:
        for _ in range(WORKERS):
            start(fleet, origin.url("").rstrip("/"))
        assert fleet.wait(60) == ["finished"] * WORKERS
        asked = [(entry.method, entry.path, entry.status) for entry in origin.requests()]
    assert asked.count(("POST", "/login", 303)) == 1
    assert not [path for _, path, status in asked if status == 403]
    parts = sorted((fleet.output / "members").glob("items-*.jsonl"))
    items = [[json.loads(line) for line in part.read_text().splitlines()] for part in parts]
    assert len(items) == WORKERS
    assert sorted(item["url"] for part in items for item in part) == sorted(map(origin.url, routes))
    purged = fleet.command("purge", "members", "--yes")
    assert purged.returncode == 0, purged.stderr
    assert redis.keys("*cookies*") == []


def test_a_spider_that_wants_a_session_where_cookies_are_off_is_told_once(fleet: Fleet) -> None:
    (fleet.folder / "members.py").write_text(FORMS)
    with Origin({}, default=Reply()) as origin:
        start(fleet, origin.url("").rstrip("/"))
        assert fleet.wait(30) == ["finished"]
    [told] = [line for line in fleet.workers[0].log.splitlines() if "docs/cookies.md" in line]
    assert "cookies are off: CRAWL_COOKIES=shared" in told and "/search" in told
