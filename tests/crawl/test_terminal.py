"""What a person sees on a terminal: the block of workers and fleets, the screen of status --watch.

On a real pseudo-terminal, read by an emulator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request
from tests.servers.redis import RedisServer, wait_for
from tests.servers.terminal import Terminal

OFTEN = {"FRONTIER_LEASE_TIMEOUT": 4}
"""A heartbeat a second."""
LEFT_SCREEN = b"\x1b[?1049l"


@pytest.fixture(scope="module")
def endless() -> Iterator[Origin]:
    """A site that has always one page more."""

    def page(request: Request) -> Reply:
        number = int(request.path.strip("/") or 0)
        links = "".join(f"<a href=/{2 * number + n}>x</a>" for n in (1, 2))
        return Reply(body=links.encode())

    with Origin({"/robots.txt": Reply(status=404)}, default=page) as origin:
        yield origin


@pytest.fixture
def kept_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that keeps what it has been told through its death."""
    with RedisServer(tmp_path / "kept", "appendonly yes", "appendfsync always") as server:
        yield server


def on_terminal(fleet: Fleet, *words: str, columns: int = 100, rows: int = 40) -> Terminal:
    given = ["-s", f"CRAWL_OUTPUT={fleet.output}", "-s", "FRONTIER_LEASE_TIMEOUT=4"]
    return Terminal([*words, *given], fleet.env, fleet.project, columns, rows)


def crawling(origin: Origin, **more: str) -> list[str]:
    given = {"seeds": origin.url("/0"), "delay": "0.02", **more}
    return [word for name, value in given.items() for word in ("-a", f"{name}={value}")]


def test_a_worker_on_a_terminal_shows_a_block_below_its_log_and_takes_it_away_at_the_end(
    fleet: Fleet, endless: Origin
) -> None:
    words = ["crawl", "site", *crawling(endless), "-s", "CRAWL_STATS_INTERVAL=0.2"]
    with on_terminal(fleet, *words, columns=60) as terminal:
        terminal.wait_for("site running")
        terminal.wait_for("1 worker")
        wait_for(lambda: fleet.status()["done"] > 30, "pages")
        shown = [line for line in terminal.lines if line]
        first = next(n for n, line in enumerate(shown) if line.startswith("site running"))
        assert "INFO" in "".join(shown[:first]) and "INFO" not in "".join(shown[first:])
        assert re.search(r"/s now +[\d.]+/s overall", " ".join(shown[first:]))
        assert all(len(line) < 60 for line in shown[first:])
        assert fleet.command("pause", "site").returncode == 0
        terminal.wait_for("scrapy resume site")
        fleet.command("stop", "site")
        assert terminal.process.wait(60) == 0
        wait_for(lambda: "Spider closed" in terminal.text, "the end of the log")
        log = terminal.scrolled_off + terminal.text
        assert "site running" not in log and " here (" not in log


def test_a_fleet_on_a_terminal_shows_the_crawl_and_says_so_while_redis_is_away(
    tmp_path: Path, kept_server: RedisServer, endless: Origin
) -> None:
    with Fleet(tmp_path, kept_server.url) as fleet:
        words = ["fleet", "site", "-n", "1", *crawling(endless)]
        with on_terminal(fleet, *words) as terminal:
            terminal.wait_for("site running")
            kept_server.kill()
            terminal.wait_for("Redis has not answered for")
            kept_server.start()
            terminal.wait_until_gone("Redis has not answered for")
            assert "worker 1: process" in terminal.lines[0]
            fleet.command("stop", "site")
            assert terminal.process.wait(60) == 0
            terminal.wait_for("Crawl site is stopped")
            assert "site running" not in terminal.scrolled_off + terminal.text


def test_the_screen_of_status_obeys_keys_tells_of_urls_and_leaves_the_terminal_as_it_was(
    fleet: Fleet, endless: Origin
) -> None:
    fleet.start(OFTEN, seeds=endless.url("/0"), delay=0.02)
    wait_for(lambda: fleet.status()["done"] > 5, "pages")
    with on_terminal(fleet, "status", "site", "--watch") as terminal:
        terminal.wait_for(" running for ")
        for part in ("ledger", "balance 0", "pages/s", "1 worker", "1 host", endless.host):
            terminal.wait_for(part)
        terminal.wait_for(endless.url("/"))  # one of the last pages, once a heartbeat has told
        terminal.type("p")
        terminal.wait_for("site: paused")
        wait_for(lambda: fleet.status()["state"] == "paused", "the crawl is paused")
        terminal.type("r")
        wait_for(lambda: fleet.status()["state"] == "running", "it goes on")
        terminal.type(f"/{endless.url('/0')}\r")
        terminal.wait_for("done: status 200")
        terminal.type("/\x1b[31m[bold]x\x1b")  # neither an arrow key nor markup is typed
        terminal.type("s")
        terminal.wait_for("stop it on all machines? y / n")
        terminal.type("n")
        assert fleet.status()["state"] == "running"
        terminal.type("sy")
        wait_for(lambda: fleet.status()["state"] == "stopped", "it has stopped")
        terminal.wait_for(" stopped after ")
        assert terminal.process.poll() is None, "it stays until it is left"
        terminal.type("q")
        assert terminal.process.wait(60) == 0
        wait_for(lambda: LEFT_SCREEN in terminal.written, "the screen is left")
        assert terminal.mode == terminal.before
        assert "site: stopped after" in terminal.text


def test_the_screen_of_status_fits_any_terminal_and_is_honest_while_redis_is_away(
    tmp_path: Path, kept_server: RedisServer, endless: Origin
) -> None:
    with Fleet(tmp_path, kept_server.url) as fleet:
        fleet.start(OFTEN, seeds=endless.url("/0"), delay=0.02)
        wait_for(lambda: fleet.status()["done"] > 5, "pages")
        with on_terminal(fleet, "status", "site", "--watch") as terminal:
            terminal.wait_for(" running for ")
            terminal.resize(40, 20)
            terminal.wait_for("╭─────────────── ledger ───────────────╮")
            wait_for(lambda: terminal.lines[-1].startswith(" p pause"), "the keys at the bottom")
            assert terminal.lines[0].startswith(" site  running for ")
            terminal.resize(100, 30)
            wait_for(lambda: len(terminal.lines[1]) == 100, "the whole width")
            kept_server.kill()
            terminal.wait_for("Redis is away")
            for part in ("Redis has not answered for", "as it stood then", "balance 0"):
                terminal.wait_for(part)
            terminal.type("p")
            terminal.wait_for("that could not be done")
            kept_server.start()
            terminal.wait_until_gone("Redis is away")
            terminal.type("xq")
            assert terminal.process.wait(60) == 0
