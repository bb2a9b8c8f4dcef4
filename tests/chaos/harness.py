"""A crawl that is disturbed: a demo web, a Redis, workers, and the checker over all of them.

    with trial(tmp_path) as crawl:
        victim = crawl.start(failpoint="settle:3")
        crawl.start()
        victim.process.wait()
        crawl.conclude()        # the others finish, and every invariant holds

A test disturbs what it likes in between: `crawl.server` is the Redis, `crawl.proxy()` a bad way to
it, and workers are processes. When an invariant is broken, `conclude` shows the seed of the web and
the smallest evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawlproj.demo import DemoServer, WebSpec
from crawlproj.failpoints import VARIABLE
from tests.chaos.checker import Evidence, Violation, judge_end
from tests.chaos.watch import Watch, look
from tests.servers.fleet import DEMO_WEB, Fleet, Worker
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer, wait_for

CRAWL = "site"
SPEC = WebSpec(seed=11, hosts=8, pages=160, flaky=0.0, slow=0.0)
DELAY_S = 0.05
TIMEOUT_S = 2.0
ATTEMPTS = 10
KEPT = ("appendonly yes", "appendfsync always")
"""A Redis that has on disk what it has acknowledged."""

PATIENT = {"FRONTIER_LEASE_TIMEOUT": 30}
"""For workers that nobody is to take for dead, however busy the machine is."""

SETTINGS = {
    "FRONTIER_LEASE_TIMEOUT": TIMEOUT_S,
    "FRONTIER_MAX_ATTEMPTS": ATTEMPTS,
    "POLITENESS_BACKOFF": 0.1,
}


@dataclass
class Trial:
    """What takes part in the crawl, and the two things a test does with it: start and conclude."""

    web: DemoServer
    server: RedisServer
    fleet: Fleet
    watch: Watch
    delay_s: float
    stack: ExitStack
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))

    def start(
        self,
        settings: dict[str, Any] | None = None,
        *,
        failpoint: str = "",
        through: Proxy | None = None,
        env: dict[str, str] | None = None,
        **args: Any,
    ) -> Worker:
        """A worker on the whole web, with a user agent of its own in the origin's log; one with
        `seeds=None` brings none."""
        known = {"seeds": self.web.seeds[0], "scope": "any", "delay": self.delay_s, **args}
        own = {"USER_AGENT": f"worker-{len(self.fleet.workers)}"}
        way = {"REDIS_URL": through.url} if through else {}
        return self.fleet.start(
            {**self.settings, **own, **way, **(settings or {})},
            env={**(env or {}), **({VARIABLE: failpoint} if failpoint else {})},
            **{name: value for name, value in known.items() if value is not None},
        )

    def proxy(self) -> Proxy:
        """Another way to the Redis."""
        return self.stack.enter_context(Proxy(self.server.port))

    def status(self) -> dict[str, Any]:
        return self.fleet.status(CRAWL)

    def wait_for_pages(self, count: int, timeout_s: float = 60) -> None:
        with self.server.client() as client:

            def done() -> int:
                now = look(client, CRAWL)
                return now.counts.get("done", 0) if now else 0

            wait_for(lambda: done() >= count, f"{count} pages", timeout_s)

    def conclude(self, timeout_s: float = 90) -> dict[str, Any]:
        """Let everyone who is still there finish, and verify every invariant."""
        running = [worker for worker in self.fleet.workers if worker.is_running]
        assert running, "nobody is left to finish the crawl"
        reasons = [worker.wait(timeout_s) for worker in running]
        assert set(reasons) == {"finished"}, [worker.log[-3000:] for worker in running]
        broken = self.violations()
        shown = "\n".join(map(str, broken))
        assert not broken, f"on the web of seed {self.web.spec.seed}:\n{shown}"
        return self.status()

    def violations(self) -> list[Violation]:
        """Everything that is wrong with the crawl, now that it has ended."""
        return [*self.watch.violations, *judge_end(self.evidence())]

    def evidence(self) -> Evidence:
        with self.server.client() as client:
            found = [key.decode() for key in client.scan_iter(count=1000)]
        return Evidence(
            crawl=CRAWL,
            expected=self.web.web.expected(self.web.seeds[:1]),
            seeds=self.web.seeds[:1],
            log=self.web.requests(),
            pages=self.fleet.urls("pages"),
            failures=self.fleet.urls("failures"),
            status=self.status(),
            redis_keys=found,
            delay_s=self.delay_s,
            max_attempts=ATTEMPTS,
        )


@contextmanager
def trial(
    folder: Path, *redis_config: str, spec: WebSpec = SPEC, delay_s: float = DELAY_S
) -> Iterator[Trial]:
    """A crawl that nobody has started yet; everything is gone at the end, whatever happens."""
    with ExitStack() as stack:
        web = stack.enter_context(DemoServer(spec))
        server = stack.enter_context(RedisServer(folder / "redis", *redis_config))
        fleet = stack.enter_context(Fleet(folder, server.url, settings=DEMO_WEB))
        watch = stack.enter_context(Watch(server, CRAWL, ATTEMPTS))
        yield Trial(web, server, fleet, watch, delay_s, stack)
