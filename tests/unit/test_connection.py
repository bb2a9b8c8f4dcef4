"""Which Redis a process uses, how it connects, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from scrapy.settings import BaseSettings, Settings
from scrapy_redis.connection import from_settings

from crawlproj.errors import (
    ConfigError,
    CrawlError,
    RedisDenied,
    RedisUnavailable,
    RedisUnsuitable,
)
from crawlproj.server.connection import Cluster, check, connect, mask, redis_url, resolve
from crawlproj.server.embedded import any_port
from tests.servers import redis as servers
from tests.servers.redis import RedisServer
from tests.servers.tls import Authority, TlsProxy

GOOD_INFO = {
    "redis_version": "7.0.15",
    "redis_mode": "standalone",
    "maxmemory_policy": "noeviction",
}


@pytest.fixture(autouse=True)
def _no_redis_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)


def settings_of(project: Mapping[str, Any] | None = None, **cmdline: Any) -> BaseSettings:
    settings = Settings(dict(project or {}), priority="project")
    settings.setdict(cmdline, priority="cmdline")
    return settings


async def ping(url: str, params: Mapping[str, Any] | None = None) -> type:
    """Connect, use the client, close it; the kind of client it was."""
    client = await connect(url, params)
    try:
        assert await client.set("key", "value")
        assert await client.get("key") == b"value"
        return type(client)
    finally:
        await client.aclose()


async def complaint(
    url: str, kind: type[CrawlError], params: Mapping[str, Any] | None = None
) -> str:
    """What a user reads who connects to this URL."""
    with pytest.raises(kind) as caught:
        await ping(url, params)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestNaming:
    def test_the_command_line_wins_then_the_environment_then_the_settings(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project = {"REDIS_URL": "redis://project:1"}
        assert redis_url(settings_of(project)) == "redis://project:1"
        monkeypatch.setenv("REDIS_URL", "redis://environment:2")
        assert redis_url(settings_of(project)) == "redis://environment:2"
        cmdline = settings_of(project, REDIS_URL="redis://cmdline:3")
        assert redis_url(cmdline) == "redis://cmdline:3"
        assert redis_url(settings_of(project, REDIS_HOST="host")) == "redis://host:6379"

    @pytest.mark.parametrize(
        ("settings", "url"),
        [
            ({}, None),
            ({"REDIS_DB": 3}, None),
            ({"REDIS_PARAMS": {"password": "secret"}}, None),
            ({"REDIS_HOST": "h"}, "redis://h:6379"),
            ({"REDIS_PORT": 7000}, "redis://localhost:7000"),
            ({"REDIS_HOST": "h", "REDIS_PORT": 7000, "REDIS_DB": 3}, "redis://h:7000/3"),
            ({"REDIS_HOST": "::1"}, "redis://[::1]:6379"),
            ({"REDIS_HOST": "h", "REDIS_PARAMS": {"ssl": True}}, "rediss://h:6379"),
            ({"REDIS_PARAMS": {"host": "h", "port": 7000, "db": 3}}, "redis://h:7000/3"),
            ({"REDIS_PARAMS": {"url": "redis://h"}}, "redis://h"),
            ({"REDIS_PARAMS": {"unix_socket_path": "/a b.sock"}}, "unix:///a%20b.sock"),
            ({"REDIS_URL": "redis://u", "REDIS_HOST": "h", "REDIS_DB": 3}, "redis://u/3"),
            ({"REDIS_URL": "redis://u/5", "REDIS_DB": 3}, "redis://u/5"),
            ({"REDIS_URL": "redis://u/?db=5", "REDIS_DB": 3}, "redis://u/?db=5"),
            ({"REDIS_URL": "redis://u/?a=1", "REDIS_DB": 3}, "redis://u/3?a=1"),
            ({"REDIS_URL": "unix:///s?a=1", "REDIS_DB": 3}, "unix:///s?a=1&db=3"),
            ({"REDIS_URL": "unix:///s", "REDIS_DB": 3}, "unix:///s?db=3"),
        ],
    )
    def test_the_settings_of_scrapy_redis_keep_their_meaning(
        self, settings: dict[str, Any], url: str | None
    ) -> None:
        assert redis_url(settings_of(settings)) == url

    def test_without_a_name_it_is_the_local_one_as_in_scrapy_redis(self) -> None:
        assert resolve(settings_of()).url == "redis://localhost:6379"
        assert resolve(settings_of({"REDIS_DB": 3})).url == "redis://localhost:6379/3"

    def test_scrapy_redis_gets_the_same_redis(self, redis_server: RedisServer) -> None:
        settings = settings_of({"REDIS_PORT": redis_server.port, "REDIS_DB": 3})
        assert resolve(settings).url == f"redis://localhost:{redis_server.port}/3"
        with from_settings(settings) as client:
            client.set("from", "scrapy-redis")
            assert client.get_connection_kwargs()["db"] == 3
        with redis_server.client() as client:
            assert client.info("keyspace").keys() == {"db3"}

    def test_frozen_settings_are_only_read(self) -> None:
        settings = settings_of({"REDIS_URL": "redis://h"})
        settings.freeze()
        assert resolve(settings).url == "redis://h"

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("localhost:6379", "must begin with redis://"),
            ("http://localhost:6379", "must begin with redis://"),
            ("redis://host:port/0", "cannot be read"),
            ("redis://host:99999/0", "cannot be read"),
            ("redis://[::1/0", "cannot be read"),
            ("redis://:se/cret@host:6379/0", "cannot be read"),
            ("unix://redis.sock", "must have the whole path of a socket"),
            ("redis://host:6379/crawl", "must end with the number of a database"),
            ("redis://host:6379/-1", "must end with the number of a database"),
        ],
    )
    def test_a_url_that_cannot_be_used_is_refused(self, url: str, reason: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(reason)) as caught:
            redis_url(settings_of({"REDIS_URL": url}))
        assert "cret" not in str(caught.value)

    def test_a_database_that_is_no_number_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="REDIS_DB is 'crawl'"):
            redis_url(settings_of({"REDIS_HOST": "h", "REDIS_DB": "crawl"}))

    @pytest.mark.parametrize(
        ("url", "masked"),
        [
            ("redis://h:6379/0", "redis://h:6379/0"),
            ("redis://:secret@h:6379/0", "redis://:***@h:6379/0"),
            ("rediss://me:secret@h", "rediss://me:***@h"),
            ("redis://:se/c#r?e@t@h/0", "redis://:***@h/0"),
            ("redis://secret@h/0", "redis://***@h/0"),
            ("unix://me:secret@/path", "unix://me:***@/path"),
            ("redis://h?password=secret&db=1", "redis://h?password=***&db=1"),
        ],
    )
    def test_a_masked_url_shows_no_password(self, url: str, masked: str) -> None:
        assert mask(url) == masked


class TestEmbedded:
    def test_without_a_name_a_project_uses_the_redis_of_its_folder(self, tmp_path: Path) -> None:
        script = (
            "from scrapy.settings import Settings\n"
            "from crawlproj.server.connection import resolve\n"
            "settings = Settings({'FRONTIER_EMBEDDED': True, 'REDIS_DB': 2})\n"
            "first, second = resolve(settings), resolve(Settings({'FRONTIER_EMBEDDED': True}))\n"
            "assert first.notice == second.notice\n"
            "print(first.url, second.url, settings['REDIS_URL'])\n"
        )
        (tmp_path / "scrapy.cfg").touch()
        (tmp_path / "spiders").mkdir()
        path = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH"))))
        said = subprocess.check_output(
            [sys.executable, "-W", "error", "-c", script],
            cwd=tmp_path / "spiders",
            env=os.environ | {"PYTHONPATH": path},
            text=True,
        ).split()
        assert re.fullmatch(r"redis://127\.0\.0\.1:\d+/2", said[0])
        assert said == [said[0], said[0].removesuffix("/2"), said[0]]
        assert (tmp_path / ".redis" / "appendonlydir").is_dir()


class TestConnecting:
    async def test_a_redis_is_used_with_bytes_and_without_repetition(
        self, redis_server: RedisServer
    ) -> None:
        client = await connect(redis_server.url, {"decode_responses": True, "retry_on_timeout": 1})
        await client.aclose()
        assert isinstance(client, Redis)
        used = client.connection_pool.connection_kwargs
        assert used["retry"].get_retries() == 0
        assert used["decode_responses"] is False
        assert (used["socket_connect_timeout"], used["socket_timeout"]) == (5, 10)

    async def test_parameters_override_the_defaults_and_the_url_overrides_them(
        self, redis_server: RedisServer
    ) -> None:
        params = {"socket_timeout": 3, "socket_connect_timeout": 4, "redis_cls": "some.Class"}
        client = await connect(f"{redis_server.url}?socket_timeout=2", params)
        await client.aclose()
        assert isinstance(client, Redis)
        used = client.connection_pool.connection_kwargs
        assert (used["socket_connect_timeout"], used["socket_timeout"]) == (4, 2)

    async def test_a_password_may_come_in_the_url_or_in_the_parameters(
        self, tmp_path: Path
    ) -> None:
        with RedisServer(tmp_path, password="secret") as server:
            assert await ping(server.url) is Redis
            assert await ping(f"redis://127.0.0.1:{server.port}", {"password": "secret"}) is Redis

    async def test_a_unix_socket_is_an_address_too(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path, f"unixsocket {tmp_path}/s.sock"):
            assert await ping(f"unix://{tmp_path}/s.sock") is Redis
            assert await ping(f"unix://{tmp_path}/s.sock?db=3") is Redis

    async def test_a_cluster_is_recognised(self, redis_cluster: servers.RedisCluster) -> None:
        assert await ping(redis_cluster.url) is Cluster

    async def test_a_cluster_client_keeps_the_login(self, tmp_path: Path) -> None:
        with servers.RedisCluster(tmp_path, masters=1, password="secret") as cluster:
            assert await ping(cluster.url) is Cluster
            assert await ping(f"redis://127.0.0.1:{cluster.nodes[0].port}", {"password": "secret"})


class TestComplaints:
    async def test_nothing_there(self) -> None:
        port = any_port()
        said = await complaint(f"redis://:secret@127.0.0.1:{port}", RedisUnavailable)
        assert said == (
            f"No Redis answers at 127.0.0.1:{port} (Connection refused): start it, or name "
            "another in REDIS_URL; with FRONTIER_EMBEDDED=True and no REDIS_URL a private one is "
            "started for you"
        )

    async def test_no_such_host_or_socket(self) -> None:
        assert "No Redis answers at none.invalid:6379 (" in await complaint(
            "redis://none.invalid", RedisUnavailable
        )
        assert "No Redis answers at /none.sock (No such file or directory)" in await complaint(
            "unix:///none.sock", RedisUnavailable
        )

    async def test_a_server_that_hangs(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path) as server:
            server.pause()
            said = await complaint(server.url, RedisUnavailable, {"socket_timeout": 0.1})
        assert f"No Redis answers at 127.0.0.1:{server.port} (Timeout" in said

    async def test_not_a_redis(self) -> None:
        with WebServer() as port:
            said = await complaint(f"redis://127.0.0.1:{port}", RedisUnavailable)
        assert said.startswith(f"What answers at 127.0.0.1:{port} is not a Redis")

    async def test_passwords(self, tmp_path: Path, redis_server: RedisServer) -> None:
        with RedisServer(tmp_path, password="secret") as server:
            address = f"127.0.0.1:{server.port}"
            assert await complaint(f"redis://{address}", RedisDenied) == (
                f"The Redis at {address} needs a password: REDIS_URL=redis://:PASSWORD@{address}/0"
            )
            said = await complaint(f"redis://:wrong@{address}", RedisDenied)
            assert "does not accept the password of user default" in said
            assert "wrong" not in said
            assert "user eve" in await complaint(f"redis://eve:wrong@{address}", RedisDenied)
        unasked = redis_server.url.replace("//", "//:secret@")
        assert "has no password: take it out" in await complaint(unasked, RedisDenied)

    async def test_a_user_without_the_rights(self, tmp_path: Path) -> None:
        with RedisServer(tmp_path) as server:
            server.cli("acl", "setuser", "bob", "on", ">pass", "~*", "+get", "+set")
            url = server.url.replace("//", "//bob:pass@")
            said = await complaint(url, RedisDenied)
            assert "lets user bob in, but" in said
            remedy = re.search(r"redis-cli (.*)$", said)
            assert remedy
            server.cli(*remedy[1].replace("'", "").split())
            assert await ping(url) is Redis

    async def test_no_such_database(self, redis_server: RedisServer) -> None:
        url = redis_server.url.removesuffix("/0") + "/99"
        assert "has no database 99: end REDIS_URL with a lower" in await complaint(url, ConfigError)

    async def test_an_unknown_option(self, redis_server: RedisServer) -> None:
        said = await complaint(redis_server.url, ConfigError, {"sokcet_timeout": 3})
        assert "An option in REDIS_PARAMS" in said
        assert "sokcet_timeout" in said

    @pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
    async def test_an_evicting_redis_and_its_remedy(self, tmp_path: Path, policy: str) -> None:
        with RedisServer(tmp_path, "maxmemory 50mb", f"maxmemory-policy {policy}") as server:
            said = await complaint(server.url, RedisUnsuitable)
            assert f"(maxmemory-policy {policy})" in said
            remedy = f"redis-cli -h 127.0.0.1 -p {server.port} "
            assert said.partition(remedy)[2] == "config set maxmemory-policy noeviction"
            server.cli(*said.partition(remedy)[2].split())
            assert await ping(server.url) is Redis

    async def test_an_evicting_redis_is_found_out_where_config_is_forbidden(
        self, tmp_path: Path
    ) -> None:
        with RedisServer(tmp_path, "maxmemory-policy allkeys-lru") as server:
            server.cli("acl", "setuser", "default", "-config")
            assert "allkeys-lru" in await complaint(server.url, RedisUnsuitable)

    async def test_a_replica(self, tmp_path: Path, redis_server: RedisServer) -> None:
        with RedisServer(tmp_path, f"replicaof 127.0.0.1 {redis_server.port}") as replica:
            servers.wait_for(
                lambda: "loading:0" in replica.cli("info", "persistence"), "not loading"
            )
            said = await complaint(replica.url, RedisUnsuitable)
        assert f"name its master 127.0.0.1:{redis_server.port}" in said

    async def test_a_cluster_with_a_database_or_without_all_slots(
        self, tmp_path: Path, redis_cluster: servers.RedisCluster
    ) -> None:
        url = redis_cluster.url.removesuffix("/0") + "/3"
        assert "Cluster" in await complaint(url, ConfigError)
        with RedisServer(tmp_path, in_cluster=True) as lonely:
            assert "redis-cli --cluster check" in await complaint(lonely.url, RedisUnavailable)

    async def test_an_evicting_node_of_a_cluster_is_named(
        self, redis_cluster: servers.RedisCluster
    ) -> None:
        node = redis_cluster.masters[2]
        node.cli("config", "set", "maxmemory-policy", "allkeys-lru")
        try:
            said = await complaint(redis_cluster.url, RedisUnsuitable)
        finally:
            node.cli("config", "set", "maxmemory-policy", "noeviction")
        assert f"The Redis at 127.0.0.1:{node.port} drops keys" in said

    @pytest.mark.parametrize(
        ("info", "reason"),
        [
            ({"redis_version": "6.2.14"}, "is version 6.2.14; a crawl needs Redis 7.0"),
            ({"redis_version": "5.0"}, "is version 5.0; a crawl needs Redis 7.0"),
            ({"loading": 1, "loading_eta_seconds": 7}, "start again in 7 seconds"),
            ({"role": "slave", "master_host": "m", "master_port": 1}, "name its master m:1"),
        ],
    )
    def test_what_the_server_says_of_itself(self, info: dict[str, Any], reason: str) -> None:
        with pytest.raises(CrawlError, match=re.escape(reason)):
            check({**GOOD_INFO, **info}, "host:6379")

    @pytest.mark.parametrize(
        "info",
        [
            {},
            {"redis_version": "7.0.0"},
            {"redis_version": "10.0.1"},
            {"redis_version": "6.0.0", "valkey_version": "9.1.2"},
            {"redis_mode": "cluster", "role": "slave"},
        ],
    )
    def test_a_good_server_passes(self, info: dict[str, Any]) -> None:
        check({**GOOD_INFO, **info}, "host:6379")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls_port(redis_server: RedisServer, authority: Authority) -> Iterator[int]:
    with TlsProxy(redis_server.port, authority.issue("127.0.0.1")) as proxy:
        yield proxy.port


class TestTls:
    async def test_a_trusted_server_is_used(self, tls_port: int, authority: Authority) -> None:
        url = f"rediss://127.0.0.1:{tls_port}"
        assert await ping(f"{url}/0?ssl_ca_certs={authority.certificate}") is Redis
        assert await ping(url, {"ssl_ca_certs": str(authority.certificate)}) is Redis

    async def test_an_untrusted_certificate_and_its_remedy(
        self, tls_port: int, authority: Authority
    ) -> None:
        url = f"rediss://127.0.0.1:{tls_port}"
        said = await complaint(url, RedisDenied)
        assert "is not trusted (unable to get local issuer certificate)" in said
        remedy = re.search(r"add (\S+)=\S+ to REDIS_URL", said)
        assert remedy
        assert await ping(f"{url}{remedy[1]}={authority.certificate}") is Redis

    async def test_the_certificate_of_another_authority(
        self, tls_port: int, tmp_path: Path
    ) -> None:
        stranger = Authority(tmp_path, "stranger")
        url = f"rediss://127.0.0.1:{tls_port}?ssl_ca_certs={stranger.certificate}"
        assert "is not trusted (" in await complaint(url, RedisDenied)

    async def test_a_certificate_of_another_host(
        self, redis_server: RedisServer, authority: Authority
    ) -> None:
        with TlsProxy(redis_server.port, authority.issue("127.0.0.2")) as proxy:
            url = f"rediss://127.0.0.1:{proxy.port}?ssl_ca_certs={authority.certificate}"
            said = await complaint(url, RedisDenied)
        assert "was not issued for that name" in said

    async def test_a_certificate_file_that_is_not_there(self, tls_port: int) -> None:
        url = f"rediss://127.0.0.1:{tls_port}?ssl_ca_certs=/none.pem"
        assert "ssl_ca_certs=/none.pem" in await complaint(url, ConfigError)

    async def test_a_plain_client_is_told_to_use_tls(self, tls_port: int) -> None:
        said = await complaint(f"redis://127.0.0.1:{tls_port}", RedisDenied)
        assert said.endswith("speaks only TLS: begin REDIS_URL with rediss://")

    async def test_a_tls_client_is_told_to_speak_plainly(self, redis_server: RedisServer) -> None:
        url = redis_server.url.replace("redis:", "rediss:")
        said = await complaint(url, RedisDenied, {"socket_connect_timeout": 0.2})
        assert said.endswith("does not speak TLS: begin REDIS_URL with redis://")


class WebServer:
    """Something that answers on a port and is not a Redis."""

    def __enter__(self) -> int:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.answer)
        self.thread.start()
        return int(self.listener.getsockname()[1])

    def answer(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def __exit__(self, *_: object) -> None:
        self.thread.join()
        self.listener.close()


@pytest.mark.parametrize(
    ("holder", "name", "raised"),
    [(None, "writelines", RedisConnectionError), (None, "other", AttributeError)],
)
async def test_a_connection_that_another_task_has_closed_is_an_outage(
    monkeypatch: pytest.MonkeyPatch, holder: Any, name: str, raised: type[Exception]
) -> None:
    async def execute(*_: Any, **__: Any) -> Any:
        return getattr(holder, name)

    monkeypatch.setattr(RedisCluster, "execute_command", execute)
    with pytest.raises(raised):
        await Cluster(host="127.0.0.1", port=1).execute_command("PING")
