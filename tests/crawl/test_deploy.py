"""What docs/deploy.md tells supervisors is so: the environment says all, SIGTERM is a graceful end,
exit codes mean what the table says, and the Redis of the manifests is one that the doctor likes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import Redis

from crawlproj.engine.memory_limit import REPLACE_ME
from crawlproj.server.embedded import any_port
from tests.servers.fleet import PROJECT, Fleet, Worker
from tests.servers.origin import Origin, Reply
from tests.servers.redis import RedisServer, wait_for

DEPLOY = PROJECT / "docs" / "deploy"
LINKS = "".join(f"<a href=/{number}>{number}</a>" for number in range(200)).encode()
NOWHERE = "redis://127.0.0.1:1/0"


def told(file: Path) -> dict[str, str]:
    """What a file of variables says, as systemd and Kubernetes read it."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def is_healthy(env: dict[str, str]) -> bool:
    """What the image's health check says."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    [words] = re.findall(r"^HEALTHCHECK .*\\\n    CMD (\[.*\])$", text, flags=re.MULTILINE)
    _, *command = json.loads(words)
    asked = subprocess.run([sys.executable, *command], env=env, capture_output=True, check=False)
    return asked.returncode == 0


def test_sigterm_ends_a_service_gracefully(fleet: Fleet, redis_url: str) -> None:
    env = {**told(DEPLOY / "systemd" / "crawl.env"), "REDIS_URL": redis_url}
    env |= {"CRAWL_WORKER_ID": "machine-1", "CRAWL_METRICS_PORT": str(any_port())}
    slow = Reply(body=b"<title>slow</title>", delay_s=0.5)
    quick = {"/": Reply(body=LINKS), "/robots.txt": Reply(status=404)}
    with Origin(quick, default=lambda _: slow) as origin:
        worker = fleet.start(env=env)
        assert fleet.command("seed", "site", origin.url("/")).returncode == 0
        wait_for(lambda: len(origin.requests()) > 2, "a slow page is under way")
        held = fleet.status()
        assert [one["name"] for one in held["workers"]] == ["machine-1"]
        assert is_healthy(env)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == "shutdown"
    assert worker.process.poll() == 0
    assert not is_healthy(env)
    now = fleet.status()
    assert (now["leased"], now["workers"], now["balance"]) == (0, [], 0)
    assert now["queued"] > 0
    assert len(fleet.urls()) == now["done"], "what was under way has its row"


def ended(worker: Worker) -> int | None:
    worker.wait()
    code: int | None = worker.process.poll()
    return code


def test_exit_codes_tell_a_supervisor_whether_to_start_again(fleet: Fleet, redis: Redis) -> None:
    without_redis = fleet.start(env={"REDIS_URL": NOWHERE})
    misspelt = fleet.start(env={"CRAWL_MEMORY_LIMIT_M": "10"})
    wrong = fleet.start(env={"CRAWL_STAY": "perhaps"})
    with Origin({"/": Reply(body=LINKS)}, default=lambda _: Reply()) as origin:
        small = {"MEMUSAGE_CHECK_INTERVAL_SECONDS": 0.2}
        full = fleet.start(small, env={"CRAWL_MEMORY_LIMIT_MB": "1"}, seeds=origin.url("/"))
        assert ended(full) == REPLACE_ME == 75
        wiped = fleet.start(seeds=origin.url("/"))
        wiped.wait_for_log("Resuming the crawl")
        redis.flushall()
        assert ended(wiped) == 1
    assert [ended(worker) for worker in (without_redis, misspelt, wrong)] == [1, 2, 2]


def redis_commands() -> dict[str, list[str]]:
    """How compose and Kubernetes start their Redis."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    file = DEPLOY / "kubernetes" / "redis.yaml"
    found: list[Any] = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    [pod] = [one["spec"]["template"]["spec"] for one in found if one["kind"] == "StatefulSet"]
    return {
        "compose": services["redis"]["command"][1:],
        "kubernetes": pod["containers"][0]["command"][1:],
    }


def config_of(words: list[str]) -> list[str]:
    """Options of a command line as lines of redis.conf; what only its place knows is left out."""
    pairs = zip(words[::2], words[1::2], strict=True)
    own = [(name.removeprefix("--"), value) for name, value in pairs]
    return [
        f"{name} {re.sub(r'.*:-(.*)}', lambda found: found[1], value)}"
        for name, value in own
        if name not in ("requirepass", "dir")
    ]


@pytest.mark.parametrize("place", ["compose", "kubernetes", "page"])
def test_the_redis_of_a_deployment_is_what_the_doctor_asks_for(place: str, tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "deploy.md").read_text(encoding="utf-8")
    if place == "page":
        [block] = re.findall(r"<!-- redis.conf -->\n```\n(.*?)```", page, flags=re.DOTALL)
        lines = block.splitlines()
    else:
        lines = config_of(redis_commands()[place])
    server = RedisServer(tmp_path / "redis", *lines, password="secret")
    with server, Fleet(tmp_path, server.url) as fleet:
        seen = fleet.command("doctor")
    assert seen.returncode == 0, seen.stdout
    findings = {line.split()[1]: line.split()[0] for line in seen.stdout.splitlines()}
    assert (findings["redis"], findings["persistence"], findings["memory"]) == ("ok",) * 3
