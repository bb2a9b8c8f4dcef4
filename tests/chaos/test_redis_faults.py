"""A Redis that dies, forgets, fills up, is emptied or cannot write: workers wait, or say why."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.harness import PATIENT, trial
from tests.servers.fleet import Worker
from tests.servers.redis import RedisServer, wait_for


def wait_for_all(workers: list[Worker], text: str, times: int = 1) -> None:
    def have_said_it() -> bool:
        return all(worker.log.count(text) >= times for worker in workers)

    wait_for(have_said_it, f"{text!r} from every worker", 60)


def test_workers_go_on_each_time_that_redis_was_killed(tmp_path: Path) -> None:
    with trial(tmp_path, "appendonly yes", "appendfsync everysec") as crawl:
        workers = [crawl.start() for _ in range(2)]
        for time in (1, 2):
            crawl.wait_for_pages(50 * time)
            crawl.server.kill()
            wait_for_all(workers, "Redis does not answer", time)
            crawl.server.start()
        crawl.conclude()
        assert all("This worker stops" not in worker.log for worker in workers)


def test_a_worker_with_nothing_to_do_waits_for_redis_too(tmp_path: Path) -> None:
    with trial(tmp_path, "appendonly yes") as crawl:
        worker = crawl.start(seeds=None, stay="true")
        wait_for(lambda: crawl.status()["workers"], "a worker", 60)
        for time in (1, 2, 3):
            crawl.server.kill()
            wait_for_all([worker], "Redis does not answer", time)
            crawl.server.start()
            wait_for_all([worker], "Redis answers again", time)
        assert "This worker stops" not in worker.log


def test_sigterm_is_obeyed_though_redis_is_away(tmp_path: Path) -> None:
    with trial(tmp_path, "appendonly yes") as crawl:
        worker = crawl.start()
        crawl.wait_for_pages(20)
        crawl.server.kill()
        wait_for_all([worker], "Redis does not answer")
        worker.process.terminate()
        worker.wait()
        assert "other workers will take over" in worker.log
        crawl.server.start()
        crawl.start()
        crawl.conclude()


def test_a_redis_out_of_memory_slows_discovery_and_loses_nothing(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl, crawl.server.client() as client:
        worker = crawl.start(PATIENT)
        crawl.wait_for_pages(3)
        client.config_set("maxmemory", "1mb")
        wait_for_all([worker], "of its maxmemory")
        assert worker.is_running
        client.config_set("maxmemory", "0")
        assert crawl.conclude()["reclaimed"] == 0


def test_a_redis_that_cannot_write_to_its_disk_makes_workers_wait(tmp_path: Path) -> None:
    with trial(tmp_path, "save 3600 1") as crawl, crawl.server.client() as client:
        workers = [crawl.start() for _ in range(2)]
        crawl.wait_for_pages(20)
        in_its_way = tmp_path / "redis" / "dump.rdb"
        in_its_way.mkdir()
        client.bgsave()
        wait_for_all(workers, "MISCONF")
        in_its_way.rmdir()
        client.save()
        crawl.conclude()


def test_a_redis_that_was_wiped_stops_every_worker_and_nothing_is_called_finished(
    tmp_path: Path,
) -> None:
    with trial(tmp_path) as crawl, crawl.server.client() as client:
        workers = [crawl.start() for _ in range(2)]
        wait_for(
            lambda: [bool(one["pages"]) for one in crawl.status()["workers"]] == [True] * 2,
            "both are at work",
            60,
        )
        client.flushall()
        assert crawl.fleet.wait() == ["failed"] * 2
        for worker in workers:
            assert "This worker stops: the crawl's state is gone from Redis" in worker.log
            assert "Traceback" not in worker.log
        assert crawl.status()["state"] == "empty"


@contextmanager
def forgetting_scripts(server: RedisServer) -> Iterator[None]:
    """SCRIPT FLUSH, over and over."""
    ended = threading.Event()

    def flush() -> None:
        with server.client() as client:
            while not ended.wait(0.005):
                client.script_flush()

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_redis_that_forgets_its_scripts_goes_unnoticed(tmp_path: Path) -> None:
    with trial(tmp_path) as crawl, forgetting_scripts(crawl.server):
        workers = [crawl.start(PATIENT) for _ in range(2)]
        crawl.conclude()
        assert all("WARNING" not in worker.log for worker in workers)
