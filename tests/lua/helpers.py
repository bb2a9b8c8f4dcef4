"""Everything that a shard keeps, read into plain Python, and a crawl that tests drive by hand.

A test states what is there before and after an operation: `State(ready=["http://a"], …)`; what it
does not name is empty. Times are whole minutes since the crawl began, on a clock that the test
sets; entries are shown as their path, with a prime for each attempt that was made: `/a''`.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from crawlproj.frontier import burying, keys, settling
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.hosts import read_group, read_host
from crawlproj.frontier.levels import HIGHEST, REVISIT
from crawlproj.frontier.messages import (
    Arrival,
    Batch,
    Kind,
    Lease,
    Opened,
    Push,
    Reclaimed,
    Settlement,
)
from crawlproj.frontier.pattern_store import set_aside_link
from crawlproj.frontier.plan import Plan
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import pack, unpack, unpack_all
from crawlproj.server.connection import connect

T = TypeVar("T")

CRAWL = "c"
MINUTE_MS = 60_000
A, B, C = "http://a", "http://b", "http://c"

ROBOTS_TXT = 1001
"""The level of a robots.txt."""

_SHOWN_META = (b"state", b"pages", b"offer")


def packed(*values: Any) -> bytes:
    """As a script packs them, one after the other."""
    return b"".join(map(pack, values))


class Host(NamedTuple):
    """A host's record; `cooling`, earliest first, `hold` and `pause` in minutes."""

    levels: list[float] = []
    out: int = 0
    cooling: list[int] = []
    pages: int = 0
    at: str | None = None
    failures: int = 0
    hold: int | None = None
    kept: int = 0
    group: str = ""
    per: int | None = None
    pause: int | None = None
    reserved: int = 0
    copies: int = 0
    woken: int = 0


class Group(NamedTuple):
    """A group's record, and its hosts that could be contacted, best first."""

    out: int = 0
    cooling: list[int] = []
    pages: int = 0
    at: str | None = None
    hold: int | None = None
    per: int | None = None
    line: list[str] = []
    kept: int = 0
    reserved: int = 0
    copies: int = 0
    woken: int = 0


class Pattern(NamedTuple):
    """A URL pattern that was set aside, and of how many URLs; when, in minutes."""

    why: str
    since: int
    released: int | None = None
    urls: int = 1


@dataclass
class State:
    """All keys of a shard. META without what only runs on, COUNTS without zeros."""

    meta: dict[str, Any] = field(default_factory=lambda: {"state": "running"})
    counts: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    ready: list[str] = field(default_factory=list)
    waiting: list[tuple[str, int]] = field(default_factory=list)
    queues: dict[str, dict[float, list[str]]] = field(default_factory=dict)
    delayed: list[tuple[int, str, float, str]] = field(default_factory=list)
    leased: dict[str, dict[int, tuple[str, float, str]]] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    twins: dict[int, int | None] = field(default_factory=dict)
    """Of leases that were copied, and of copies: the token of the other, None if that has won."""
    leased_at: dict[int, int] = field(default_factory=dict)
    """When leases that may be copied were made."""
    leased_of: dict[int, str] = field(default_factory=dict, compare=False, repr=False)
    """The groups that leases were taken of."""
    dead: set[tuple[str, float, str, str, int]] = field(default_factory=set)
    untold: dict[str, list[tuple[str, float, str]]] = field(default_factory=dict)
    """Of workers, the dead letters that they were told of and have not reported yet."""
    workers: dict[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    seeds: set[str] = field(default_factory=set)
    audit: set[str] = field(default_factory=set)
    scope: set[str] = field(default_factory=set)
    layers: list[int] = field(default_factory=lambda: [0])
    resting: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """When each is due, and what it is counted as."""
    patterns: dict[str, Pattern] = field(default_factory=dict)
    set_aside: dict[str, list[str]] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Every key as Redis holds it, the seen filter's bitmaps and running numbers included."""


def with_worker(**parts: Any) -> State:
    """A state in which the worker `w` is known."""
    return State(workers={"w": 1000}, about={"w": {}}, **parts)


def link(host: str, path: str, level: float = 0) -> Push:
    return Push(Kind.LINK, host, level, entry(path), host + path)


def seed(host: str, path: str, level: float = 0) -> Push:
    return link(host, path, level)._replace(kind=Kind.SEED)


def unfiltered(host: str, path: str, level: float = 0) -> Push:
    return link(host, path, level)._replace(kind=Kind.UNFILTERED)


def filtered(reason: str, url: str) -> Push:
    return Push(Kind.FILTERED, "", 0, reason.encode(), f"{reason} {url}")


def apart(host: str, path: str, pattern: str, why: str = "repeated", level: float = 0) -> Push:
    """A link that was found while its pattern is set aside."""
    return set_aside_link(link(host, path, level), pattern, why, f"pattern {host}{path}")


def entry(path: str, attempts: int = 0) -> bytes:
    return bytes((attempts, 1)) + path.encode()


def shown(stored: bytes) -> str:
    if len(stored) < 2 or stored[1] != 1:
        return repr(stored)
    return stored[2:].decode(errors="replace") + "'" * stored[0]


def letter(host: str, path: str) -> int:
    """The number under which a URL's dead letter is kept."""
    told = f"{host}\n{path}".encode()
    return int(hashlib.sha1(told, usedforsecurity=False).hexdigest()[:13], 16)


def resting_number(host: str, path: str) -> bytes:
    """The number under which a URL rests."""
    return hashlib.sha1(f"{host}\n{path}".encode(), usedforsecurity=False).digest()[:8]


def paths(batch: Batch) -> list[str]:
    return [shown(lease.entry) for lease in batch.leases]


def structures(redis: Any, crawl: str = CRAWL, shard: int = 0) -> State:
    """Read every key of the shard; whatever is no key of a shard fails here."""
    names = {key(crawl, shard): key.__name__ for key in keys.VECTOR}
    raw = {_known(name.decode(), names): _value(redis, name) for name in _all(redis, crawl, shard)}
    raw["meta"].pop(b"clock_ms", None)  # when the last script ran, which any may write
    told = raw.pop("replies", {})
    clock = _Clock(int(raw["meta"][b"started_ms"]))
    return State(
        meta=_shown_meta(raw["meta"]),
        counts={name.decode(): int(n) for name, n in raw.get("counts", {}).items() if int(n)},
        hosts={n.decode(): _host(p, clock) for n, p in raw.get("hosts", {}).items()},
        groups={n.decode(): _group(n, raw, clock) for n in raw.get("groups", {})},
        ready=[name.decode() for name, _ in raw.get("ready", [])],
        waiting=[(name.decode(), clock.minute(at)) for name, at in raw.get("waiting", [])],
        queues=_queues(raw),
        delayed=[_delayed(packed, clock.minute(at)) for packed, at in raw.get("delayed", [])],
        leased=_leased(raw),
        kept=_kept(raw),
        twins=_twins(raw),
        leased_at=_leased_at(raw, clock),
        leased_of=_leased_of(raw),
        dead={_dead(packed) for packed in raw.get("dead", {}).values()},
        untold=_untold(told),
        workers={name.decode(): clock.minute(at) for name, at in raw.get("workers", [])},
        about={name.decode(): json.loads(told) for name, told in raw.get("about", {}).items()},
        seeds={key.decode() for key in raw.get("seeds", set())},
        audit={key.decode() for key in raw.get("audit", set())},
        scope={name.decode() for name, _ in raw.get("scope", [])},
        layers=_layers(raw.get("layers", {})),
        resting=_resting(raw, clock),
        patterns={n.decode(): _pattern(p, clock) for n, p in raw.get("patterns", {}).items()},
        set_aside=_aside(raw),
        raw=raw,
    )


def set_clock(redis: Any, minute: float, crawl: str = CRAWL, shard: int = 0) -> None:
    """Let the scripts of the shard believe that so many minutes of the crawl have passed. A step of
    the server's clock (`step_clock`) that no script has met yet is taken back."""
    seconds, micros = redis.time()
    now_ms = seconds * 1000 + micros // 1000
    began_ms = int(redis.hget(keys.meta(crawl, shard), "started_ms"))
    skew_ms = began_ms + round(minute * MINUTE_MS) - now_ms
    redis.hset(keys.meta(crawl, shard), mapping={"skew_ms": skew_ms, "clock_ms": now_ms})


def step_clock(redis: Any, minutes: float, crawl: str = CRAWL, shard: int = 0) -> None:
    """Let the server's clock have been set, forward or back, since the last script ran."""
    by_ms, meta = round(minutes * MINUTE_MS), keys.meta(crawl, shard)
    redis.hincrby(meta, "clock_ms", -by_ms)
    redis.hincrby(meta, "skew_ms", by_ms)


def assert_balanced(state: State) -> None:
    """The ledger says what the structures hold, and each host stands where it belongs."""
    counts = Counter(state.counts)
    queued = sum(len(paths) for levels in state.queues.values() for paths in levels.values())
    leased = [lease for held in state.leased.values() for lease in held.values()]
    assert counts["queued"] == queued
    assert counts["delayed"] == len(state.delayed)
    assert counts["leased"] == len(leased) - _copies(state).total()
    assert counts["resting"] == len(state.resting)
    assert counts["dead"] == len(state.dead) == _sum(counts, "dead:")
    settled = counts["done"] + counts["dead"] + _sum(counts, "filtered:")
    assert counts["discovered"] == queued + len(state.delayed) + counts["leased"] + settled
    assert all(value >= 0 for value in counts.values())
    held = [one for leases in state.leased.values() for one in leases.items()]
    out = Counter(host for token, (host, _, _) in held if token not in state.kept)
    kept = Counter(host for token, (host, _, _) in held if token in state.kept)
    waiting = [name for name, _ in state.waiting]
    reserved, woken = _waiting_seeds(state), _waiting_revisits(state)
    assert (counts["reserved"], counts["woken"]) == (reserved.total(), woken.total())
    for name, host in state.hosts.items():
        assert sorted(state.queues.get(name, {})) == host.levels
        assert (host.out, host.kept) == (out[name], kept[name])
        assert host.copies == _copies(state)[name]
        assert (host.reserved, host.woken) == (reserved[name], woken[name])
        ready = state.groups[host.group].line if host.group else state.ready
        assert (name in ready, name in waiting) == (host.at == "ready", host.at == "waiting")
        assert not host.at or host.levels
    lines = [set(group.line) for group in state.groups.values()]
    for name, group in state.groups.items():
        places = (name in state.ready, name in waiting)
        assert places == (group.at == "ready", group.at == "waiting")
        assert not group.at or group.line
        members = [host for host, record in state.hosts.items() if record.group == name]
        assert group.reserved == sum(reserved[host] for host in members)
        assert group.woken == sum(woken[host] for host in members)
        leased_of = {token for token, of in state.leased_of.items() if of == name}
        assert (group.out, group.kept) == (len(leased_of - state.kept), len(leased_of & state.kept))
    placed = set(state.ready) | set(waiting)
    known = state.hosts.keys() | state.groups.keys()
    assert state.queues.keys() | out.keys() | placed | set().union(*lines) <= known


def _copies(state: State) -> Counter[str]:
    """By host, how many of its leases are beyond one a URL."""
    held = {token: url for leases in state.leased.values() for token, url in leases.items()}
    return Counter(
        held[token][0]
        for token, other in state.twins.items()
        if other is None or (token > other and other in held)
    )


def _waiting_seeds(state: State) -> Counter[str]:
    """By host, how many of a crawl with a page budget are queued or delayed."""
    return Counter(host for host, level in _waiting(state) if HIGHEST < level < REVISIT)


def _waiting_revisits(state: State) -> Counter[str]:
    return Counter(host for host, level in _waiting(state) if level == REVISIT)


def _waiting(state: State) -> list[tuple[str, float]]:
    """Host and level of what is queued or delayed."""
    queued = [
        (host, level)
        for host, levels in state.queues.items()
        for level, paths in levels.items()
        for _ in paths
    ]
    return queued + [(host, level) for _, host, level, _ in state.delayed]


class Worker:
    """A worker at its shard, each call awaited on the spot."""

    def __init__(self, name: str, shard: Shard, runner: asyncio.Runner) -> None:
        self.name = name
        self.shard = shard
        self._run = runner.run

    @property
    def frontier(self) -> Frontier:
        """The same shard as the worker's own code sees it."""
        return Frontier(self.shard.client, self.shard.crawl, self.name, shards=[self.shard])

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        return self._run(operation)

    def push(self, *batch: Push, seen_locally: int = 0) -> list[bool]:
        return self._run(self.shard.push(self.name, batch, seen_locally))

    def lease(self, wanted: int = 100, **how: Any) -> Batch:
        return self._run(self.shard.lease(self.name, wanted, **how))

    def lease_one(self) -> Lease:
        [lease] = self.lease(1).leases
        return lease

    def settle(self, *batch: Settlement) -> list[int]:
        return self._run(settling.settle(self.shard, self.name, batch)).late

    def reclaim(self, most: int = 10, reported: int = 0) -> Reclaimed:
        return self._run(burying.reclaim(self.shard, self.name, reported, most))

    def done(self, *leases: Lease, **how: Any) -> list[int]:
        return self.settle(*(Settlement(lease.token, "done", **how) for lease in leases))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.shard, name)
        takes_worker = name in ("renew", "leave", "held_leases")
        return lambda *a, **k: self._run(method(*((self.name, *a) if takes_worker else a), **k))


class HandCrawl:
    """One shard of one crawl, its workers, and its clock."""

    def __init__(self, redis: Any, client: Any, runner: asyncio.Runner) -> None:
        self.redis = redis
        self._client = client
        self._runner = runner
        self._epochs = (f"e{number}" for number in itertools.count(1))
        self.geometry = Geometry(1000, 0.01)
        self.audit_one_in = 1 << 40
        self.opened: Opened | None = None

    def open(
        self,
        *,
        run: str = "run",
        follow: str = "",
        brings_seed: bool = True,
        seed_found_at: str = "",
        dismissals: int | None = None,
        **limits: Any,
    ) -> Opened:
        given = Plan(**limits)
        fields = given.meta_fields(0, '{"plan": 1}')
        opening = self._shard().open(
            "" if follow else next(self._epochs),
            follow=follow,
            run=run,
            fields=fields,
            lasts_ms=given.lasts_ms,
            arrival=Arrival(brings_seed, seed_found_at, dismissals),
        )
        self.opened = self._runner.run(opening)
        return self.opened

    def worker(self, name: str = "w", timeout_minutes: float = 1000) -> Worker:
        """A worker that has told the shard of itself."""
        worker = self.stranger(name)
        worker.renew(round(timeout_minutes * MINUTE_MS), {})
        return worker

    def stranger(self, name: str = "w") -> Worker:
        """A worker that the shard does not know."""
        return Worker(name, self._shard(), self._runner)

    def at(self, minute: float) -> None:
        set_clock(self.redis, minute)

    def step(self, minutes: float) -> None:
        step_clock(self.redis, minutes)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await what a test does beside its workers."""
        return self._runner.run(work)

    def reconnect(self) -> None:
        """Forget connections to a server that has been restarted."""
        self._runner.run(self._client.connection_pool.disconnect())

    def state(self) -> State:
        state = structures(self.redis)
        assert_balanced(state)
        return state

    def key(self, name: str, tail: object = "") -> str:
        function = getattr(keys, f"{name}_prefix" if tail != "" else name)
        return f"{function(CRAWL, 0)}{tail}"

    def _shard(self) -> Shard:
        epoch = self.opened.epoch if self.opened else ""
        return Shard(self._client, CRAWL, 0, self.geometry, self.audit_one_in, epoch=epoch)


@contextmanager
def hand_crawl(url: str, redis: Any) -> Iterator[HandCrawl]:
    with asyncio.Runner() as runner:
        client = runner.run(connect(url))
        try:
            yield HandCrawl(redis, client, runner)
        finally:
            runner.run(client.aclose())


class _Clock(NamedTuple):
    began_ms: int

    def minute(self, at_ms: float) -> int:
        return round((at_ms - self.began_ms) / MINUTE_MS)


def _all(redis: Any, crawl: str, shard: int) -> list[bytes]:
    pattern = keys.tag(crawl, shard).replace("{", "\\{").replace("}", "\\}")
    return list(redis.scan_iter(match=f"{pattern}*", count=1000))


def _known(key: str, names: dict[str, str]) -> str:
    if key in names:
        return names[key]
    for prefix, name in names.items():
        if prefix.endswith(":") and key.startswith(prefix):
            return f"{name.removesuffix('_prefix')} {key.removeprefix(prefix)}"
    raise AssertionError(f"a key that keys.py does not know: {key}")


def _value(redis: Any, key: bytes) -> Any:
    match redis.type(key):
        case b"hash":
            return redis.hgetall(key)
        case b"zset":
            return redis.zrange(key, 0, -1, withscores=True)
        case b"list":
            return redis.lrange(key, 0, -1)
        case b"set":
            return redis.smembers(key)
        case b"stream":
            return redis.xrange(key)
    return redis.get(key)


def _shown_meta(meta: dict[bytes, bytes]) -> dict[str, Any]:
    visible: dict[str, Any] = {}
    for name, value in meta.items():
        if name == b"offer":
            visible["offer"] = json.loads(value)
        elif (name in _SHOWN_META or name.startswith(b"took:")) and value != b"-1":
            visible[name.decode()] = int(value) if value.isdigit() else value.decode()
    return visible


def _host(packed: bytes, clock: _Clock) -> Host:
    found = read_host(packed)
    at = found.at or None
    cooling = sorted(clock.minute(due) for due in found.cooling)
    hold = None if found.held_until_ms is None else clock.minute(found.held_until_ms)
    record = (found.levels, found.out, cooling, found.pages, at, found.failures, hold, found.kept)
    pause = found.pause_ms and found.pause_ms // MINUTE_MS
    kept = found.reserved, found.copies, found.woken
    return Host(*record, found.group, found.connections, pause, *kept)


def _group(name: bytes, raw: dict[str, Any], clock: _Clock) -> Group:
    found = read_group(raw["groups"][name])
    cooling = sorted(clock.minute(due) for due in found.cooling)
    hold = None if found.held_until_ms is None else clock.minute(found.held_until_ms)
    line = [host.decode() for host, _ in raw.get(f"line {name.decode()}", [])]
    record = (found.out, cooling, found.pages, found.at or None, hold, found.connections)
    return Group(*record, line, found.kept, found.reserved, found.copies, found.woken)


def _queues(raw: dict[str, Any]) -> dict[str, dict[float, list[str]]]:
    queues: dict[str, dict[float, list[str]]] = {}
    for key, entries in raw.items():
        if key.startswith("queue "):
            level, _, host = key.removeprefix("queue ").partition(":")
            queues.setdefault(host, {})[float(level)] = [shown(one) for one in entries]
    return queues


def _delayed(packed: bytes, minute: int) -> tuple[int, str, float, str]:
    host, level, stored, _ = unpack_all(packed)
    return minute, host.decode(), level, shown(stored)


def _leased(raw: dict[str, Any]) -> dict[str, dict[int, tuple[str, float, str]]]:
    leased: dict[str, dict[int, tuple[str, float, str]]] = {}
    for key, held in raw.items():
        if key.startswith("leased "):
            leased[key.removeprefix("leased ")] = {
                int(token): _url(unpack_all(packed)) for token, packed in held.items()
            }
    return leased


def _resting(raw: dict[str, Any], clock: _Clock) -> dict[tuple[str, str], tuple[int, str]]:
    due = dict(raw.get("due", []))
    assert due.keys() == raw.get("resting", {}).keys()
    found = {}
    for number, packed in raw.get("resting", {}).items():
        host, stored, counted_as = unpack_all(packed)
        asked = host.decode(), shown(stored)
        found[asked] = clock.minute(due[number]), counted_as.decode()
    return found


def _kept(raw: dict[str, Any]) -> set[int]:
    return {token for token, fields in _leases(raw) if any(fields[3:4])}


def _twins(raw: dict[str, Any]) -> dict[int, int | None]:
    told = {token: fields[5] for token, fields in _leases(raw) if len(fields) > 5}
    return {
        token: int(text.split()[0]) if text else None
        for token, text in told.items()
        if isinstance(text, bytes)
    }


def _leased_at(raw: dict[str, Any], clock: _Clock) -> dict[int, int]:
    return {int(name.split()[0]): clock.minute(at) for name, at in raw.get("leased_at", [])}


def _leased_of(raw: dict[str, Any]) -> dict[int, str]:
    return {token: fields[4].decode() for token, fields in _leases(raw) if any(fields[4:5])}


def _leases(raw: dict[str, Any]) -> Iterator[tuple[int, list[Any]]]:
    for key, held in raw.items():
        if key.startswith("leased "):
            yield from ((int(token), unpack_all(packed)) for token, packed in held.items())


def _url(fields: list[Any]) -> tuple[str, float, str]:
    host, level, stored = fields[:3]
    return host.decode(), level, shown(stored)


def _dead(packed: bytes) -> tuple[str, float, str, str, int]:
    fields = unpack_all(packed)
    return *_url(fields), fields[3].decode(), fields[5]


def _untold(told: dict[bytes, bytes]) -> dict[str, list[tuple[str, float, str]]]:
    return {
        name.decode().removeprefix("lost "): sorted(map(_url, unpack_all(packed)[1]))
        for name, packed in told.items()
        if name.startswith(b"lost ")
    }


def _pattern(packed: bytes, clock: _Clock) -> Pattern:
    why, since_ms, released_ms, urls = unpack(packed)
    released = clock.minute(released_ms) if released_ms else None
    return Pattern(why.decode(), clock.minute(since_ms), released, urls)


def _aside(raw: dict[str, Any]) -> dict[str, list[str]]:
    """By pattern: the key of a link that was found, the path of a URL that was queued."""
    return {
        name.removeprefix("set_aside "): [_named(unpack(packed)) for packed in records]
        for name, records in raw.items()
        if name.startswith("set_aside ")
    }


def _named(record: list[Any]) -> str:
    _, _, stored, key = record
    return key.decode() or shown(stored)


def _layers(raw: dict[bytes, bytes]) -> list[int]:
    return [int(raw.get(b"items:%d" % layer, 0)) for layer in range(int(raw.get(b"open", 0)))]


def _sum(counts: Counter[str], prefix: str) -> int:
    return sum(value for name, value in counts.items() if name.startswith(prefix))
