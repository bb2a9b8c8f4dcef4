"""Crawls without a Redis of the user's: the project folder brings its own."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.operate.request_log import fetch_counts
from crawlproj.server.embedded import DEFAULT_PORT, LOOPBACK, State
from tests.servers.fleet import PROJECT, Fleet
from tests.servers.redis import wait_for

SPEC = WebSpec(seed=8, hosts=6, pages=60, flaky=0.0, slow=0.0)

pytestmark = pytest.mark.demo_web


@pytest.fixture
def redis_url() -> str:
    """None: the workers start their own."""
    return ""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project folder as a user has it, with a space in its name."""
    project = tmp_path / "my crawl"
    project.mkdir()
    shutil.copy(PROJECT / "scrapy.cfg", project)
    for name in ("spiders", "pipelines", "settings"):
        shutil.copytree(PROJECT / name, project / name)
    yield project
    wait_for(lambda: not is_served(project), "its Redis is gone", 10)


def is_served(project: Path) -> bool:
    found = State.read(project / ".redis")
    if found is None:
        return False
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, found.port)) == 0 and is_alive(found.guard)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_pages(fleet: Fleet, count: int) -> None:
    wait_for(lambda: len(fleet.urls()) >= count, f"{count} pages", 30)


def test_two_workers_started_at_once_share_one_redis_that_goes_with_them_and_keeps_its_data(
    fleet: Fleet, web: DemoServer
) -> None:
    before = len(web.requests())
    expected = web.web.expected(web.seeds[:1])
    workers = [fleet.start(seeds=web.seeds[0], scope="any", delay=0) for _ in range(2)]
    assert [worker.wait(40) for worker in workers] == ["finished"] * 2
    fetched = fetch_counts(web.requests()[before:])
    assert {url: fetched[url] for url in expected.fetched} == dict.fromkeys(expected.fetched, 1)
    greetings = sorted(worker.log.count("Beginning the crawl") for worker in workers)
    assert greetings == [0, 1]
    wait_for(lambda: not is_served(fleet.project), "the server is gone", 10)
    shown = fleet.command("status", "site")
    assert shown.returncode == 0
    assert "site: finished" in shown.stdout


def test_after_all_workers_were_killed_the_next_start_resumes(
    fleet: Fleet, web: DemoServer
) -> None:
    before = len(web.requests())
    expected = web.web.expected(web.seeds[:1])
    quick = {"FRONTIER_LEASE_TIMEOUT": "1"}
    for _ in range(2):
        fleet.start(quick, seeds=web.seeds[0], scope="any", delay=0.1)
    wait_for_pages(fleet, 10)
    for worker in fleet.workers:
        worker.kill()
    wait_for(lambda: not is_served(fleet.project), "the server is gone", 10)
    again = fleet.start(quick)
    assert again.wait(60) == "finished", again.log
    # Until their time is up, the killed ones count as running: then it is joining.
    assert any(word in again.log for word in ("Resuming the crawl", "Joining the crawl"))
    fetched = fetch_counts(web.requests()[before:])
    assert expected.fetched <= fetched.keys()
    wanted = expected.pages | expected.redirects | expected.non_html
    assert set(fleet.urls()) == wanted


@contextmanager
def usual_port_taken() -> Iterator[None]:
    """By us, as soon as another test has left it; or by whoever on this machine keeps it."""
    held: list[socket.socket] = []

    def is_held() -> bool:
        with suppress(OSError):
            held.append(socket.create_server((LOOPBACK, DEFAULT_PORT)))
        return bool(held)

    with suppress(TimeoutError):
        wait_for(is_held, "the usual port to be ours", 60)
    yield
    for listener in held:
        listener.close()


def test_when_the_usual_port_is_taken_the_worker_says_once_where_its_own_redis_is(
    fleet: Fleet, web: DemoServer
) -> None:
    with usual_port_taken():
        worker = fleet.start(seeds=web.seeds[0], delay=0)
        assert worker.wait(40) == "finished"
    found = State.read(fleet.project / ".redis")
    assert found is not None and found.port != DEFAULT_PORT
    assert worker.log.count(f"this project's own Redis is on port {found.port}") == 1
