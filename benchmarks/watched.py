"""What it costs a crawl to be watched: a worker by itself, and one that is watched, by turns.

    python -m benchmarks.watched [--seconds 10] [--rounds 6]

Watched: a dashboard at which three browsers look, the worker's own metrics read every 5 s, and its
live block on a terminal. One worker on pages of 10 KB with 57 links each; it has a core of its own,
where there are two, and the dashboard is on that of the origin and Redis. So processor time a page
is compared, of the worker and of Redis: pages a second are as many as the origin has time for.
Ratios are of the two crawls of one round, whose order changes; the medians of all rounds are shown.
"""

from __future__ import annotations

import os
import pty
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median

import redis

from benchmarks import rounds
from benchmarks.common import Row, cores, machine, pin, publish, redis_server, say
from benchmarks.fleet import CRAWL, crawl_for_a_while
from benchmarks.output import WEB
from crawlproj.server.embedded import any_port
from tests.servers.dashboard import DashboardProcess
from tests.servers.redis import RedisServer

BROWSERS = 3
READ_EVERY_S = 5.0
OFF, ON = "by itself", "watched"
FIGURES = ("cpu_ms_per_page", "redis_cpu_ms_per_page", "pages_per_s")


@contextmanager
def watched(redis_url: str, metrics_port: int) -> Iterator[None]:
    """The dashboard with browsers at it, and the metrics read."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        dashboard = stack.enter_context(DashboardProcess(folder, redis_url))
        for _ in range(BROWSERS):
            address = f"{dashboard.url}events?crawl={CRAWL}"
            looks = subprocess.Popen(["curl", "-sN", address], stdout=subprocess.DEVNULL)
            stack.callback(looks.wait)
            stack.callback(looks.kill)
        over = threading.Event()
        reader = threading.Thread(target=_read_metrics, args=(metrics_port, over))
        reader.start()
        stack.callback(reader.join)
        stack.callback(over.set)
        yield


def _read_metrics(port: int, over: threading.Event) -> None:
    while not over.is_set():
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as told:
            told.read()
        over.wait(READ_EVERY_S)


@contextmanager
def terminal() -> Iterator[int]:
    """Where a worker shows its block; whoever sits there reads all of it."""
    master, slave = pty.openpty()

    def read() -> None:
        with suppress(OSError):
            while os.read(master, 65_536):
                pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield slave
    finally:
        os.close(slave)
        reader.join()
        os.close(master)


def crawl(server: RedisServer, client: redis.Redis, seconds: float, how: str) -> Row:
    with ExitStack() as stack:
        settings: Row = {}
        given: Row = {}
        if how == ON:
            port = any_port()
            settings["CRAWL_METRICS_PORT"] = port
            given = {
                "beside": watched(server.url, port),
                "terminal": stack.enter_context(terminal()),
            }
        ran, _ = crawl_for_a_while(
            WEB,
            server,
            client,
            workers=1,
            seconds=seconds,
            profile="fast",
            settings=settings,
            **given,
        )
    return {"pages_per_s": ran.pages_per_s, **ran.costs()}


def table(found: list[dict[str, Row]]) -> list[Row]:
    """The medians of both, and of their ratios round by round."""
    rows: list[Row] = [
        {"crawl": how, **{name: median(one[how][name] for one in found) for name in FIGURES}}
        for how in (OFF, ON)
    ]
    ratios = {name: median(one[ON][name] / one[OFF][name] for one in found) for name in FIGURES}
    return [*rows, {"crawl": "ratio", **{name: round(one, 3) for name, one in ratios.items()}}]


def main() -> None:
    parser = rounds.parser("watched", __doc__, rounds=6)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each crawl [10]")
    options = parser.parse_args()
    found = []
    with redis_server() as (server, client):
        about = machine(client)
        pin(0, cores()[0])
        for number in range(options.rounds):
            say(f"watched, round {number + 1} of {options.rounds}")
            order = (OFF, ON) if number % 2 else (ON, OFF)
            found.append({how: crawl(server, client, options.seconds, how) for how in order})
    publish("watched", about, vars(options), table(found))


if __name__ == "__main__":
    main()
