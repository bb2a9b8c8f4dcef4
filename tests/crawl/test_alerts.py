"""Each alert is fired by what it is for: a real Prometheus scrapes a dashboard and a worker.

Prometheus takes seconds where the rules have minutes: the rules are the same, with shorter times.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from crawlproj.frontier import keys
from crawlproj.server.embedded import any_port
from tests.servers.dashboard import DashboardProcess
from tests.servers.debian import needed
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.origin import HANG, Origin, Reply
from tests.servers.redis import RedisServer, wait_for

pytestmark = pytest.mark.slow

RULES = PROJECT / "docs/monitoring/alerts.yml"
PAGES = 200
DISK_BYTES = 40_000_000


def hurried(rules: str) -> str:
    """The rules, with seconds in the place of minutes."""
    rules = re.sub(r"\[(\d+)m\]", "[5s]", rules)
    return re.sub(r"for: (\d+)m", "for: 1s", rules)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """The folder, on a disk that is soon full."""
    folder.mkdir()
    size = ["-o", f"size={DISK_BYTES}"]
    if subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", folder], check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def prometheus(folder: Path, targets: dict[str, str]) -> Iterator[str]:
    """One that scrapes these jobs; gives its URL."""
    port = any_port()
    (folder / "alerts.yml").write_text(hurried(RULES.read_text()))
    jobs = [
        {"job_name": name, "static_configs": [{"targets": [place]}]}
        for name, place in targets.items()
    ]
    every = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    config = {"global": every, "rule_files": ["alerts.yml"], "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # YAML reads JSON
    command = [
        needed("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def firing(url: str) -> set[str]:
    with (
        suppress(urllib.error.URLError, ConnectionError),
        urllib.request.urlopen(f"{url}/api/v1/alerts", timeout=5) as reply,
    ):
        found = json.load(reply)["data"]["alerts"]
        return {one["labels"]["alertname"] for one in found if one["state"] == "firing"}
    return set()


def test_each_alert_is_fired_by_what_it_is_for(
    fleet: Fleet, tmp_path: Path, redis_server: RedisServer, redis_url: str
) -> None:
    routes = {
        "/": Reply(body=b"".join(b"<a href=/%d>x</a>" % n for n in range(PAGES))),
        **{f"/{n}": Reply(status=404) for n in range(PAGES // 2)},
        **{f"/{n}": HANG for n in range(PAGES // 2, PAGES)},
    }
    with (
        small_disk(fleet.output),
        Origin(routes) as origin,
        redis_server.client() as client,
        DashboardProcess(tmp_path, redis_url) as dashboard,
    ):
        own = {"CRAWL_METRICS_PORT": str(any_port()), "FRONTIER_LEASE_TIMEOUT": "6"}
        own["DOWNLOAD_TIMEOUT"] = "2"
        at = f"127.0.0.1:{dashboard.port}"
        jobs = {"crawl": at, "worker": f"127.0.0.1:{own['CRAWL_METRICS_PORT']}"}
        with prometheus(tmp_path, jobs) as url:

            def fires(name: str) -> None:
                wait_for(lambda: name in firing(url), f"{name} fires", 60)

            workers = [fleet.start(own, seeds=origin.url("/"), delay="0.1") for _ in range(2)]
            fires("CrawlDeadLettersGrow")  # half of the pages are not there
            fires("CrawlNoProgress")  # the other half never answers
            fires("CrawlHostsStuck")  # so that their host fails
            (fleet.output / "large").write_bytes(bytes(DISK_BYTES * 19 // 20))
            fires("CrawlDiskFull")
            (fleet.output / "large").unlink()
            workers[0].signal(signal.SIGKILL)
            fires("CrawlHeartbeatLost")
            used = int(client.info("memory")["used_memory"])
            client.config_set("maxmemory", used + used // 10)
            fires("CrawlRedisMemory")
            client.config_set("maxmemory", 0)
            told = json.loads(next(iter(client.hvals(keys.about("site", 0)))))
            stop = time.monotonic() + 30
            while "CrawlLinksWait" not in firing(url) and time.monotonic() < stop:
                for worker in client.hkeys(keys.about("site", 0)):
                    client.hset(keys.about("site", 0), worker, json.dumps({**told, "waiting": 9}))
                time.sleep(0.1)
            assert "CrawlLinksWait" in firing(url)
            client.hincrby(keys.counts("site", 0), "discovered", 1)
            fires("CrawlLedgerWrong")
            client.hincrby(keys.counts("site", 0), "discovered", -1)
            redis_server.kill()
            fires("CrawlDashboardGone")
            redis_server.start()
