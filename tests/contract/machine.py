"""A state machine that drives the scripts on a real server and a plain model of them, step by step.

Several workers push, lease, settle (in time, late, or for another), renew, leave, fall silent or
die between two calls, while the crawl is paused, stopped, limited and drained, its clock steps
forth and back, the script cache is emptied and the server is killed and started again from its
log. After each step everything that the shard keeps is compared with the model, and the ledger is
balanced.

Operations stand ten minutes apart, and the pauses and delays that they set end at minutes of
their own (…3, …4, …6, …), so that no two times come to depend on how fast the machine is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from bitarray import bitarray
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from crawlproj.errors import CrawlError
from crawlproj.frontier import pattern_store, resting
from crawlproj.frontier.bloom import Geometry, Replica
from crawlproj.frontier.levels import FIRST, MOVED, seed_level
from crawlproj.frontier.messages import Kind, Push, Settlement
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.settling import Answer, settle
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack
from crawlproj.worker import exchange
from tests.contract.model import Model, Refused
from tests.contract.mortal import Death, Died, Judged, hand_in
from tests.lua.helpers import MINUTE_MS, HandCrawl, Worker, apart, entry, shown
from tests.servers.redis import RedisServer

STEP_MINUTES = 10
TIMEOUT_MINUTES = 31
CAPACITY = 20
WORKERS = ("w1", "w2", "w3")
GROUPS = {"http://a": "one", "http://b": "one", "http://c": "other", "": ""}

workers = st.sampled_from(WORKERS)
hosts = st.sampled_from(["http://a", "http://b", "http://c"])
pauses = st.sampled_from([(0, 0), (0, 3), (0, 24), (17, 28)])
delays = st.sampled_from([0, 6, 47])
verdicts = st.sampled_from(
    ["done", "done", "filtered", "set_aside", "dead", "retry", "wait", "return", "keep"]
)
patterns = st.sampled_from(["/#", "reason"])
revisited = st.sampled_from([b"", b"", entry("/r1"), entry("/r2")])
holds = st.sampled_from([0, 0, 0, 19])
failed = st.sampled_from([-1, 0, 1, 2])
connections = st.sampled_from([0, 0, 1, 2, 3])

plans = st.builds(
    Plan,
    per_host=st.sampled_from([1, 2]),
    delay_s=st.sampled_from([0, 12 * 60]),
    pages=st.sampled_from([None, None, 6]),
    pages_per_host=st.sampled_from([None, None, 3]),
    max_attempts=st.sampled_from([1, 2, 4]),
    give_up=st.sampled_from([None, None, 2]),
    minutes=st.sampled_from([None, None, None, 405]),
    group=st.sampled_from(["host", "host", "domain"]),
    pages_per_domain=st.sampled_from([None, None, 4]),
    refresh=st.sampled_from([None, "1000000/s"]),
    speculate=st.booleans(),
    seen_capacity=st.just(CAPACITY),
)

levels = st.sampled_from([-1, 0, 1, MOVED, FIRST])


@st.composite
def pushes(draw: st.DrawFn) -> Push:
    kind = draw(st.sampled_from(Kind))
    host, path = draw(hosts), f"/{draw(st.integers(0, 20))}"
    if kind == Kind.FILTERED:
        return Push(kind, "", 0, b"offsite", f"offsite {host}{path}")
    if kind == Kind.SET_ASIDE:
        return apart(host, path, draw(patterns))
    level, per_host = draw(levels), draw(connections)
    return Push(kind, host, level, entry(path), host + path, per_host=per_host)


class FrontierMachine(RuleBasedStateMachine):
    """Drives both and compares all that there is after each step."""

    steps = 0
    worker_class = exchange.Worker

    def __init__(self, server: RedisServer, crawl: HandCrawl) -> None:
        super().__init__()
        self.server = server
        self.crawl = crawl
        self.restarts_left = 1
        self.stepped_minutes = 0
        crawl.redis.flushall()
        crawl.opened = None
        crawl.geometry = Geometry(CAPACITY, 1e-7)
        crawl.audit_one_in = 4

    @initialize(given=plans, seeds=st.lists(pushes(), min_size=3, max_size=8))
    def begin(self, given: Plan, seeds: list[Push]) -> None:
        self.crawl.open(**vars(given))
        if given.speculate:
            # Leases mostly last a minute, so that what is older than three is copied.
            self.crawl.redis.hset(self.crawl.key("durations"), "31", 1000)
        self.workers = {name: self.crawl.stranger(name) for name in WORKERS}
        sampled = self.workers["w1"].shard.sampled
        self.model = Model(given, lambda key: bool(sampled(key)))
        self.last_push: dict[str, list[Push]] = {}
        self.tokens: list[int] = []
        self.reported: dict[str, int] = {}
        self.last_settled: tuple[str, int, list[Settlement], Answer] | None = None
        for name in WORKERS[:2]:
            self.renew(name)
            self.workers[name].warm()
            self.push(name, seeds)
            self.lease(name, 2)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "model"):
            FrontierMachine.steps += 1
            state = self.crawl.state()
            assert state == self.model.state()
            for one in self.workers.values():
                assert _is_within(one.shard.replica, state.raw)

    @rule(name=workers, batch=st.lists(pushes(), max_size=6))
    def push(self, name: str, batch: list[Push]) -> None:
        batch = self._grouped(batch)
        self._both(lambda: self._tick(name).push(*batch), lambda: self.model.push(batch))
        self.last_push[name] = batch

    @precondition(lambda self: self.last_push and self.model.status != "finished")
    @rule(data=st.data())
    def push_again_after_a_lost_reply(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.last_push)))
        shard = self.workers[name].shard
        if _is_known(self.crawl, name, shard):
            assert shard.pushes is not None
            shard.pushes -= 1
            batch = self.last_push[name]
            assert self._tick(name).push(*batch) == [False] * len(batch)

    @rule(name=workers, wanted=st.integers(1, 5))
    def lease(self, name: str, wanted: int) -> None:
        def real() -> tuple[str, list[tuple[Any, ...]]]:
            batch = self._tick(name).lease(wanted)
            return batch.state, [tuple(lease[1:]) for lease in batch.leases]

        def modelled() -> tuple[str, list[tuple[Any, ...]]]:
            state, leases = self.model.lease(name, wanted)
            self.tokens += [token for token, *_ in leases]
            return state, [(token, *url, *host) for token, url, *host in leases]

        self._both(real, modelled)

    @rule(name=workers, most=st.integers(1, 5))
    def wake(self, name: str, most: int) -> None:
        def real() -> int:
            one = self._tick(name)
            return one.run(resting.wake(one.shard, most, MINUTE_MS)).urls

        self._both(real, lambda: self.model.wake(most))

    @precondition(lambda self: any(self.model.leased.values()))
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._holders()))
        tokens = st.lists(
            st.sampled_from(list(self.model.leased[name])), unique=True, min_size=1, max_size=4
        )
        self._settle(name, [data.draw(_settlements(token)) for token in data.draw(tokens)])

    @precondition(lambda self: any(self.model.leased.values()))
    @rule(data=st.data())
    def settle_what_another_holds(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(self._holders()))
        token = data.draw(st.sampled_from(list(self.model.leased[holder])))
        name = data.draw(workers.filter(lambda name: name != holder))
        self._settle(name, [data.draw(_settlements(token))])

    @precondition(lambda self: self.tokens)
    @rule(name=workers, data=st.data())
    def settle_what_may_have_been_taken_away(self, name: str, data: st.DataObject) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        self._settle(name, [data.draw(_settlements(token))])

    @precondition(lambda self: self.last_settled)
    @rule()
    def settle_again_after_a_lost_reply(self) -> None:
        assert self.last_settled is not None
        name, number, batch, answer = self.last_settled
        replies = self.crawl.redis.hgetall(self.crawl.key("replies"))
        if pack(str(number)) not in b"".join(replies.values()):
            return  # the worker was dead meanwhile, or has left
        one = self._tick(name)
        call = settle(one.shard, name, batch, call=number, is_repeated=True)
        assert one.run(call) == answer

    # A lease that another worker's copy has outrun may be there when the crawl has finished.
    @precondition(lambda self: any(self.model.leased.values()) and self.model.status != "finished")
    @rule(
        data=st.data(),
        links=st.lists(pushes(), max_size=6, unique_by=lambda link: link.key),
        dies_before=st.sampled_from([None, "push", "settle"]),
    )
    def hand_in_a_page(self, data: st.DataObject, links: list[Push], dies_before: Death) -> None:
        """Of a link that it meets twice, a worker sends the first alone."""
        name = data.draw(st.sampled_from(self._holders()))
        token = data.draw(st.sampled_from(list(self.model.leased[name])))
        settlement, links = data.draw(_settlements(token)), self._grouped(links)
        one = self._tick(name)
        worker = self.worker_class(one.frontier, Judged(), connections=1, lease_timeout_s=1)
        work = hand_in(worker, links, settlement, dies_before)
        try:
            self.crawl.run(work)
        except Died:
            self.die(name)
        if dies_before != "push" or not links:
            self.model.push(links)
            if dies_before != "settle":
                self.model.settle(name, [settlement])
        self.last_push.pop(name, None)

    @precondition(lambda self: any(self.model.leased.values()))
    @rule(data=st.data(), other=workers)
    def take_an_hour_over_a_page(self, data: st.DataObject, other: str) -> None:
        """However long it takes, a worker that keeps its heartbeat keeps what it holds."""
        name = data.draw(st.sampled_from(self._holders()))
        for _ in range(3):
            self.renew(name)
            self.model.now += STEP_MINUTES
        self.reclaim(other)

    @rule(name=workers)
    def die(self, name: str) -> None:
        """What it knew is gone; the next of its name begins with what Redis has."""
        self.workers[name] = self.crawl.stranger(name)
        self.last_push.pop(name, None)
        self.reported.pop(name, None)

    @rule(name=workers)
    def renew(self, name: str) -> None:
        self._both(
            lambda: self._tick(name).renew(TIMEOUT_MINUTES * MINUTE_MS, {}),
            lambda: (
                self.model.renew(name, TIMEOUT_MINUTES),
                self.model.status,
                0,
                len(self.model.leased.get(name, ())),
                False,
                self.model.outrun(name),
            ),
        )

    @rule(steps=st.integers(1, 6))
    def let_time_pass(self, steps: int) -> None:
        self.model.now += steps * STEP_MINUTES

    @precondition(lambda self: self.model.now > 100)
    @rule(steps=st.integers(1, 4))
    def set_the_clock_back(self, steps: int) -> None:
        self.model.now -= steps * STEP_MINUTES

    @rule(minutes=st.sampled_from([-600, -60, 60, 600]))
    def set_the_servers_clock(self, minutes: int) -> None:
        """Nothing comes of it, unless all time since the last call of any worker may have passed:
        who calls next has had no answer yet."""
        self.stepped_minutes = minutes

    @rule(name=workers, reports=st.booleans())
    def reclaim(self, name: str, reports: bool = True) -> None:
        """What it does not report, because it has not heard of it, it is told again."""
        reported = self.reported.get(name, 0)

        def real() -> tuple[int, int, list[str], int]:
            found = self._tick(name).reclaim(reported=reported)
            if reports:
                self.reported[name] = found.told
            lost = sorted(host + shown(stored) for host, _, stored in found.dead)
            return found.workers, found.queued, lost, found.told

        self._both(real, lambda: self.model.reclaim(name, reported))

    @rule(name=workers)
    def leave(self, name: str) -> None:
        self._both(self._tick(name).leave, lambda: self.model.leave(name))

    @rule(change=st.sampled_from([("paused", "running"), ("running", "paused")]))
    def pause_or_resume(self, change: tuple[Any, Any]) -> None:
        wanted, was = change
        self._both(
            lambda: self._tick("w1").set_state(wanted, [was]),
            lambda: self.model.set_state(wanted, [was]),
        )

    @rule()
    def finish(self) -> None:
        self._both(self._tick("w1").finish, self.model.finish)

    @precondition(lambda self: self.model.status in ("finished", "stopped"))
    @rule()
    def run_again(self) -> None:
        self._both(
            lambda: self._tick("w1").set_state("running", ["finished", "stopped"]),
            lambda: self.model.set_state("running", ["finished", "stopped"]),
        )

    @precondition(lambda self: self.model.now > 300)
    @rule()
    def stop(self) -> None:
        self._both(
            lambda: self._tick("w1").set_state("stopping", ["running", "paused"]),
            lambda: self.model.set_state("stopping", ["running", "paused"]),
        )

    @precondition(lambda self: self.model.now > 300)
    @rule()
    def filter_queued(self) -> None:
        self._both(
            lambda: self._tick("w1").filter_queued("page_limit"),
            lambda: self.model.filter_queued("page_limit"),
        )

    @precondition(lambda self: any(host.queues for host in self.model.hosts.values()))
    @rule(data=st.data())
    def delete_queued(self, data: st.DataObject) -> None:
        queues = [(name, at) for name, host in self.model.hosts.items() for at in host.queues]
        name, level = data.draw(st.sampled_from(sorted(queues)))
        front = self.model.hosts[name].queues[level][: data.draw(st.integers(1, 4))]
        doomed = data.draw(st.lists(st.sampled_from(front), unique=True))
        self._both(
            lambda: self._tick("w1").call("drop_queued", [name, level, pack(front), pack(doomed)]),
            lambda: self.model.drop_queued(name, level, len(front), doomed),
        )

    @precondition(lambda self: self.model.dead)
    @rule(data=st.data(), name=st.sampled_from(["retry_dead", "forget_dead"]))
    def see_to_dead_letters(self, data: st.DataObject, name: str) -> None:
        some = st.lists(st.sampled_from(sorted(self.model.dead)), unique=True, min_size=1)
        letters = data.draw(some)
        self._both(
            lambda: getattr(self._tick("w1"), name)(letters),
            lambda: getattr(self.model, name)(letters),
        )

    @rule(name=workers, host=hosts, pattern=patterns)
    def release(self, name: str, host: str, pattern: str) -> None:
        worker = self._tick(name)
        named = pattern_store.Pattern(0, host, pattern, "", 0, 0, 0)
        self._both(
            lambda: worker.run(pattern_store.release(worker.shard, named, name)),
            lambda: self.model.release(host, pattern),
        )
        self.last_push.pop(name, None)

    @rule()
    def flush_scripts(self) -> None:
        self.crawl.redis.script_flush()

    @precondition(lambda self: self.restarts_left and self.model.now > 150)
    @rule()
    def kill_the_server_and_start_it_from_its_log(self) -> None:
        self.restarts_left -= 1
        self.server.kill()
        self.server.start()
        self.crawl.reconnect()

    def _grouped(self, batch: list[Push]) -> list[Push]:
        """As the frontier tells the shard of them, and as workers rank seeds."""
        if self.model.plan.has_page_budget:
            batch = [
                item._replace(level=seed_level(item.level)) if item.kind == Kind.SEED else item
                for item in batch
            ]
        if not self.model.plan.by_domain:
            return batch
        return [item._replace(group=GROUPS[item.host]) for item in batch]

    def _holders(self) -> list[str]:
        return sorted(name for name, leases in self.model.leased.items() if leases)

    def _settle(self, name: str, batch: list[Settlement]) -> None:
        shard = self.workers[name].shard
        number = shard.number_settlement()

        def real() -> list[int]:
            answer = self._tick(name).run(settle(shard, name, batch, call=number))
            self.last_settled = name, number, batch, answer
            return answer.late

        self._both(real, lambda: self.model.settle(name, batch))

    def _tick(self, name: str) -> Worker:
        self.model.now += STEP_MINUTES
        self.crawl.at(self.model.now)
        stepped, self.stepped_minutes = self.stepped_minutes, 0
        self.crawl.step(stepped)
        if stepped > 0 and not self.workers[name].shard.has_answered:
            self.model.now += stepped
        return self.workers[name]

    @staticmethod
    def _both(real: Any, modelled: Any) -> None:
        assert _outcome(real) == _outcome(modelled)


class SpeculatingMachine(FrontierMachine):
    """Begins with leases of which each has a copy, where its host allows that."""

    @initialize(given=plans, seeds=st.lists(pushes(), min_size=3, max_size=8))
    def begin(self, given: Plan, seeds: list[Push]) -> None:
        super().begin(replace(given, speculate=True, per_host=2, delay_s=0), seeds)
        self.lease("w1", 5)
        self.lease("w2", 5)

    @precondition(lambda self: self.model.pairs())
    @rule(data=st.data())
    def settle_both(self, data: st.DataObject) -> None:
        """One after the other, whichever is first."""
        pair = data.draw(st.sampled_from(self.model.pairs()))
        for name, token in data.draw(st.permutations(pair)):
            self._settle(name, [data.draw(_settlements(token))])


def _outcome(operation: Any) -> Any:
    try:
        return operation()
    except CrawlError as error:
        return type(error).__name__
    except Refused as error:
        return str(error)


def _settlements(token: int) -> st.SearchStrategy[Settlement]:
    def build(
        pause: tuple[int, int], delay: int, hold: int, revisit: bytes, **how: Any
    ) -> Settlement:
        ago, length = pause
        entries = {"set_aside": b"repeated", "done": revisit, "filtered": revisit}
        return Settlement(
            token,
            ended_ago_ms=ago * MINUTE_MS,
            pause_ms=length * MINUTE_MS,
            delay_ms=delay * MINUTE_MS,
            hold_ms=hold * MINUTE_MS,
            reason="reason",
            entry=entries.get(how["verdict"], b""),
            **how,
        )

    statuses = st.sampled_from([0, 200, 503])
    return st.builds(
        build,
        pauses,
        delays,
        holds,
        revisited,
        verdict=verdicts,
        failed=failed,
        status=statuses,
        size=statuses,
        per_host=connections,
    )


def _is_within(replica: Replica, raw: dict[str, Any]) -> bool:
    """Whether all that a worker takes for seen has been seen by the server."""
    for number, layer in enumerate(replica.layers):
        bits = bitarray(endian="big")
        bits.frombytes(raw.get(f"seen {number}", b"").ljust(-(-layer.num_bits // 8), b"\0"))
        if (bitarray(layer.bitarray, endian="big") & ~bits[: layer.num_bits]).any():
            return False
    return True


def _is_known(crawl: HandCrawl, name: str, shard: Shard) -> bool:
    """Whether the shard remembers the worker's last push: it forgets those who left or died."""
    found = crawl.redis.hget(crawl.key("meta"), f"push:{name}")
    return found is not None and int(found) == shard.pushes
