"""Real workers and commands on a Redis with a password, with a user of few rights, with TLS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from crawlproj.discover.seeds import SeedList
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.replication import Replication
from crawlproj.operate.purge import purge
from crawlproj.server.connection import connect
from tests.contract.shared_crawl import crawl_all, web
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.frontier import push_all
from tests.servers.origin import Origin, Reply
from tests.servers.redis import RedisCluster, RedisServer, wait_for
from tests.servers.tls import Authority, TlsProxy

DOC = (PROJECT / "docs" / "security.md").read_text(encoding="utf-8")
LINKS = b'<a href="/a">a</a><a href="/b">b</a>'
SECRET = "PASSWORD"
REFUSED = r"(?i)permission|can't access"
"""What a Redis says to a user without the right; 7.0 has other words for it inside of scripts."""


@pytest.fixture
def origin() -> Iterator[Origin]:
    pages = dict.fromkeys(("/", "/a", "/b", "/later"), Reply(body=LINKS))
    with Origin(pages) as running:
        yield running


def acl_line() -> list[str]:
    """The command that the documentation tells users to type."""
    found = re.search(r"<!-- acl -->\n```\n(.*)\n```\n<!-- /acl -->", DOC)
    assert found
    return found[1].split()


def crawl(fleet: Fleet, origin: Origin) -> None:
    """A worker crawls, is asked how it stands, and is given another seed, all by that Redis."""
    worker = fleet.start(seeds=origin.url("/"), delay=0, stay="true")
    wait_for(lambda: len(fleet.rows("pages")) == 3 or not worker.is_running, "three pages", 60)
    assert fleet.command("seed", "site", origin.url("/later")).returncode == 0
    wait_for(lambda: len(fleet.rows("pages")) == 4 or not worker.is_running, "four pages", 60)
    shown = fleet.command("status", "site", "--json")
    assert shown.returncode == 0, shown.stderr
    now = json.loads(shown.stdout)
    assert (now["state"], now["done"], now["balance"]) == ("running", 4, 0)
    assert fleet.command("stop", "site").returncode == 0
    assert worker.wait(60) == "stopped", worker.log
    assert SECRET not in worker.log


def test_a_password(tmp_path: Path, origin: Origin) -> None:
    with (
        RedisServer(tmp_path / "redis", password=SECRET) as server,
        Fleet(tmp_path, server.url) as fleet,
    ):
        crawl(fleet, origin)
        fleet.redis_url = server.url.replace(SECRET, "wrong")
        refused = fleet.command("status", "site")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "does not accept the password" in refused.stderr


def test_the_documented_user_can_crawl_and_nothing_else(tmp_path: Path, origin: Origin) -> None:
    with RedisServer(tmp_path / "redis") as server:
        server.cli("set", "other:secret", "1")
        assert server.cli(*acl_line()) == "OK"
        url = server.url.replace("//", f"//crawler:{SECRET}@")
        with Fleet(tmp_path, url) as fleet:
            crawl(fleet, origin)
            asked = [("why", "site", origin.url("/")), ("dead", "site"), ("resume", "site")]
            asked += [("doctor", "--dns", "localhost"), ("purge", "site", "--yes")]
            told = {words[0]: fleet.command(*words) for words in asked}
            other = fleet.command("status", "other")
        assert not [done.stderr for done in told.values() if "permission" in done.stderr.lower()]
        assert [told[name].returncode for name in ("why", "doctor", "purge")] == [0] * 3
        assert (other.returncode, other.stderr.count("\n")) == (1, 1)
        assert "permission" in other.stderr
        assert_harmless(url)


def assert_harmless(url: str) -> None:
    """What somebody who got hold of the password cannot do."""
    forbidden = [
        ("GET", "other:secret"),
        ("SET", "other:secret", "2"),
        ("EVAL", "return redis.call('GET', 'other:secret')", "0"),
        ("EVAL", "return redis.call('GET', KEYS[1])", "1", "other:secret"),
        ("SCAN", "0"),
        ("KEYS", "*"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
        ("SCRIPT", "FLUSH"),
        ("SHUTDOWN",),
        ("ACL", "LIST"),
        ("MONITOR",),
        ("SUBSCRIBE", "anything"),
        ("REPLICAOF", "host", "1"),
    ]
    with Redis.from_url(url) as client:
        for words in forbidden:
            with pytest.raises(ResponseError, match=REFUSED):
                client.execute_command(*words)


async def test_the_documented_user_can_crawl_on_a_cluster(tmp_path: Path) -> None:
    with RedisCluster(tmp_path, masters=2, replicas=1) as cluster:
        for node in cluster.nodes:
            assert node.cli(*acl_line()) == "OK"
        client = await connect(cluster.url.replace("//", f"//crawler:{SECRET}@"))
        frontier = Frontier(client, "site", "w", replication=Replication(client, None, 5.0))
        await frontier.open(Plan(shards=3, seen_capacity=1000), "run")
        await frontier.renew(60_000, {})
        await frontier.warm()
        await push_all(frontier, web(2))
        assert all([await frontier.wait_for_replicas(shard) for shard in frontier.shards])
        assert await SeedList(client, "site:start_urls").size() == 0
        assert len(await crawl_all(frontier)) == len(web(2))
        assert await frontier.finish() == "finished"
        await purge(frontier)
        await frontier.close()


def test_tls(tmp_path: Path, origin: Origin, redis_server: RedisServer) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    with TlsProxy(redis_server.port, authority.issue("127.0.0.1")) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}/0?ssl_ca_certs="
        with Fleet(tmp_path, f"{url}{authority.certificate}") as fleet:
            crawl(fleet, origin)
            fleet.redis_url = f"{url}{stranger.certificate}"
            refused = fleet.command("crawl", "site", "-a", f"seeds={origin.url('/')}")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "is not trusted" in refused.stderr
