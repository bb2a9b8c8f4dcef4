"""The frontier of one shard as plain Python: what the scripts must do, without Redis.

Times are minutes. An operation first does what it does to URLs and then puts every host that
it has touched where it belongs, in the order in which it touched them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeAlias

from crawlproj.frontier.levels import FIRST, HIGHEST, MOVED, REVISIT
from crawlproj.frontier.messages import Kind, Push, Settlement, State
from crawlproj.frontier.plan import HOST, Plan
from crawlproj.frontier.wire import pack, unpack
from crawlproj.worker.outcome import CLOCK_MS
from tests.lua import helpers
from tests.lua.helpers import MINUTE_MS, shown

SECOND = 1 / 60
OLD_AFTER = 3
"""From when on a lease is copied, if leases mostly last a minute."""


class Refused(Exception):
    """The operation is not allowed now; `str()` is the name of the error it must raise."""


class Url(NamedTuple):
    host: str
    level: float
    entry: bytes

    @property
    def is_seed(self) -> bool:
        """Whether it stands above all links: a seed of a crawl with a page budget."""
        return HIGHEST < self.level < REVISIT

    @property
    def is_revisit(self) -> bool:
        return self.level == REVISIT

    @property
    def attempts(self) -> int:
        return self.entry[0]

    def tried(self) -> Url:
        return self._replace(entry=bytes((self.entry[0] + 1,)) + self.entry[1:])


Taken: TypeAlias = tuple[int, Url, int, int, str]
"""A lease: token, URL, failures and pages of its host, and its group."""


@dataclass
class Host:
    queues: dict[float, list[bytes]] = field(default_factory=dict)
    out: int = 0
    cooling: list[int] = field(default_factory=list)
    pages: int = 0
    at: str | None = None
    failures: int = 0
    hold: float | None = None
    kept: int = 0
    copies: int = 0
    group: str = ""
    per: int | None = None
    pause: int | None = None
    best: float | None = None
    turn: int = 0
    revisit: float | None = None
    turns: float = 0

    @property
    def next_is_link(self) -> bool:
        return _is_link(max(self.queues, default=inf))

    @property
    def next_is_new(self) -> bool:
        """Whether it is a link or a seed."""
        return max(self.queues, default=inf) < REVISIT

    @property
    def has_new(self) -> bool:
        """Whether it has more than pages to revisit."""
        return bool(self.queues.keys() - {REVISIT})

    @property
    def next_has_moved(self) -> bool:
        return max(self.queues, default=None) == MOVED

    @property
    def rank(self) -> float | None:
        """The level by which it stands among others: its robots.txt does not go before theirs."""
        return max(self.queues.keys() - {FIRST} or self.queues, default=None)

    @property
    def levels(self) -> list[float]:
        return sorted(self.queues)

    @property
    def due(self) -> float:
        """When a host that waits may be asked again."""
        return self.hold or min(self.cooling)


@dataclass
class Group:
    out: int = 0
    cooling: list[int] = field(default_factory=list)
    pages: int = 0
    at: str | None = None
    hold: int | None = None
    per: int | None = None
    kept: int = 0
    copies: int = 0
    revisit: float | None = None
    turns: float = 0

    @property
    def due(self) -> int:
        """When a group that waits may be asked again."""
        return self.hold or min(self.cooling)


class Model:
    """What a shard knows, and the operations on it."""

    def __init__(self, plan: Plan, is_audited: Callable[[str], bool]) -> None:
        self.plan = plan
        self.is_audited = is_audited
        self.now = 0
        self.status: State = "running"
        self.counts: Counter[str] = Counter()
        self.hosts: dict[str, Host] = {}
        self.groups: dict[str, Group] = {}
        self.leased_of: dict[int, str] = {}
        self.delayed: list[tuple[float, bytes, Url]] = []
        self.leased: dict[str, dict[int, Url]] = {}
        self.kept: set[int] = set()
        self.twins: dict[int, int | None] = {}
        self.leased_at: dict[int, int] = {}
        self.untold: dict[str, tuple[int, list[Url]]] = {}
        self.dead: dict[int, tuple[Url, str, int]] = {}
        self.workers: dict[str, int] = {}
        self.seen: set[str] = set()
        self.seeds: set[str] = set()
        self.layers = [0]
        self.patterns: dict[str, helpers.Pattern] = {}
        self.set_aside: dict[str, list[Push]] = {}
        self.resting: dict[tuple[str, bytes], tuple[float, str]] = {}
        self._tokens = self._turns = 0
        self._touched: list[str] = []
        self._touched_groups: set[str] = set()

    # The operations

    def push(self, batch: list[Push]) -> list[bool]:
        if self.status == "finished":
            raise Refused("CrawlFinished")
        news = [self._take_in(item) for item in batch]
        for name, item in {
            item.host: item for item in batch if item.group or item.per_host
        }.items():
            if name in self._touched:
                self._settle_in(self.hosts[name], item.group, item.per_host)
        self._place_touched()
        if self.layers[-1] >= self.plan.seen_capacity * 2 ** (len(self.layers) - 1):
            self.layers.append(0)
        return news

    def lease(self, worker: str, wanted: int) -> tuple[State, list[Taken]]:
        if worker not in self.workers:
            raise Refused("WorkerDeclaredDead")
        lasts = self.plan.lasts_ms // MINUTE_MS
        if self.status == "running" and 0 < lasts <= self.now:
            self.status = "stopping"
        if self.status != "running":
            return self.status, []
        self._promote_due()
        status: State = "running"
        for_links, for_revisits, most = inf, inf, wanted
        if self.plan.pages is not None:
            pages = self.plan.pages - self._used()
            for_revisits, most = pages - self._reserved(), min(wanted, pages)
            for_links = for_revisits - self._reserved(woken=True)
            status = "running" if most > 0 else "limit"
        leases: list[Taken] = []
        while len(leases) < most and (line := self._ready()):
            name = self._line(line[0])[0] if line[0] in self.groups else line[0]
            rank = self.hosts[name].rank or 0
            left = for_links if _is_link(rank) else for_revisits if rank == REVISIT else inf
            if left <= 0 and not self._is_to_drop(name):
                break
            for_links -= self.hosts[name].next_is_link
            for_revisits -= self.hosts[name].next_is_link or max(self.hosts[name].queues) == REVISIT
            if self._is_to_drop(name):
                self._place(self.hosts[name])
                self._place_groups()
            else:
                leases.append(self._lease_first_of(name, worker))
        return status, leases + self._copy(worker, wanted - len(leases))

    def settle(self, worker: str, batch: list[Settlement]) -> list[int]:
        late = [one.token for one in batch if not self._settle(worker, one)]
        self.counts["late"] += len(late)
        self._place_touched()
        return late

    def wake(self, most: int) -> int:
        if self.status != "running" or not self.plan.refresh:
            return 0
        if self.plan.pages is not None:
            waiting = self._reserved() + self._reserved(woken=True)
            most = min(most, self.plan.pages - self._used() - waiting)
        if most <= 0:
            return 0
        due = sorted(
            (due, helpers.resting_number(asked[0], shown(asked[1])), asked, counted_as)
            for asked, (due, counted_as) in self.resting.items()
            if due <= self.now
        )
        woken = 0
        for _, _, asked, counted_as in due:
            if woken >= most:
                break
            if self._has_turn(asked):
                del self.resting[asked]
                self._wake(*asked, counted_as)
                woken += 1
        self._place_touched()
        return woken

    def renew(self, worker: str, minutes: int) -> bool:
        known = worker in self.workers
        self.workers[worker] = self.now + minutes
        return known

    def outrun(self, worker: str) -> tuple[tuple[int, int], ...]:
        """What its heartbeat tells it of leases that its twins have won."""
        held = self.leased.get(worker, {})
        return tuple((0, token) for token in held if self.twins.get(token, 0) is None)

    def pairs(self) -> list[list[tuple[str, int]]]:
        """Leases of one URL by two workers, each with its holder."""
        held = [(name, token) for name, leases in self.leased.items() for token in leases]
        found = [(one, self._twin_of(one[1])) for one in held]
        return [[one, twin] for one, twin in found if twin and one[1] < twin[1]]

    def leave(self, worker: str) -> bool:
        if self.leased.get(worker) or worker in self.untold:
            if worker in self.workers:
                self.workers[worker] = self.now
            return False
        self.workers.pop(worker, None)
        return True

    def reclaim(self, caller: str, reported: int) -> tuple[int, int, list[str], int]:
        lost = sorted((due, name) for name, due in self.workers.items() if due <= self.now)
        told, to_report = self.untold.pop(caller, (reported, []))
        told, to_report = max(told, reported), to_report[max(0, reported - told + len(to_report)) :]
        queued = dead = 0
        for _, worker in lost:
            for nth, (token, url) in enumerate(list(self.leased.get(worker, {}).items())):
                ended = self._take_back(worker, token, url.tried(), nth * SECOND)
                queued += ended is True
                if ended is False:
                    dead += 1
                    to_report.append(url.tried())
            del self.workers[worker]
            _, inherited = self.untold.pop(worker, (0, []))
            to_report += inherited
            told += len(inherited)
        told += dead
        if to_report:
            self.untold[caller] = told, to_report
        self.counts["reclaimed"] += queued + dead
        self._place_touched()
        return len(lost), queued, sorted(url.host + shown(url.entry) for url in to_report), told

    def set_state(self, wanted: State, allowed_from: list[State]) -> State:
        if wanted == "stopping" and not any(due >= self.now for due in self.workers.values()):
            wanted = "stopped"
        if self.status in allowed_from:
            self.status = wanted
        return self.status

    def finish(self) -> State:
        left = self.counts["queued"] + self.counts["delayed"] + self.counts["leased"]
        if self.status == "running" and not left:
            self.status = "finished"
        elif self.status == "stopping" and not self.counts["leased"]:
            self.status = "stopped"
        return self.status

    def filter_queued(self, reason: str) -> int:
        dropped = len(self.delayed)
        self._count(**{"delayed": -dropped, f"filtered:{reason}": dropped})
        self._count(reserved=-sum(url.is_seed for _, _, url in self.delayed))
        self._count(woken=-sum(url.is_revisit for _, _, url in self.delayed))
        touched = [url for _, _, url in self.delayed if url.is_seed or url.is_revisit]
        self._touched += dict.fromkeys(url.host for url in touched)
        self.delayed = []
        placed = [*self._ready(), *self._waiting()]
        self._touched_groups.update(self.groups.keys() & set(placed))
        for name in [host for one in placed for host in self._line(one) or [one]]:
            dropped += self._drop_queue(self._touch(name), reason)
        self._place_touched()
        return dropped

    def drop_queued(self, name: str, level: float, count: int, doomed: list[bytes]) -> list[int]:
        """What stays of the front goes to the end."""
        host = self._touch(name)
        front, rest = host.queues[level][:count], host.queues[level][count:]
        stays = [entry for entry in front if entry not in doomed]
        host.queues[level] = rest + stays
        if not host.queues[level]:
            del host.queues[level]
        gone = len(front) - len(stays)
        is_seed, is_revisit = HIGHEST < level < REVISIT, level == REVISIT
        self._count(queued=-gone, reserved=-gone * is_seed, woken=-gone * is_revisit)
        self._count(**{"filtered:deleted": gone})
        self._place_touched()
        return [len(front), gone]

    def retry_dead(self, letters: list[int]) -> int:
        if self.status == "finished":
            raise Refused("CrawlFinished")
        for letter in letters:
            url = self._open(letter)
            self._enqueue(url._replace(entry=b"\0" + url.entry[1:]))
            host = self._touch(url.host)
            host.failures, host.hold = 0, None
        self._place_touched()
        return len(letters)

    def forget_dead(self, letters: list[int]) -> int:
        for letter in letters:
            self._open(letter)
            self._count(**{"filtered:forgotten": 1})
        return len(letters)

    def release(self, host: str, pattern: str) -> int:
        name = f"{host} {pattern}"
        if name not in self.patterns:
            return 0
        if self.patterns[name].released is None:
            self.patterns[name] = self.patterns[name]._replace(released=self.now)
        kept = self.set_aside.get(name, [])
        new = sum(self.push(kept)) if kept else 0
        self.set_aside.pop(name, None)
        self._count(**{"filtered:pattern": -new, "discovered": -new})
        return new

    def state(self) -> helpers.State:
        """As `structures()` reads it from Redis."""
        meta = {"state": self.status, "pages": self.plan.pages}
        return helpers.State(
            meta={name: value for name, value in meta.items() if value is not None},
            counts={name: count for name, count in self.counts.items() if count},
            hosts={
                name: _record(host, self._reserved(host=host))._replace(
                    woken=self._reserved(host=host, woken=True)
                )
                for name, host in self.hosts.items()
            },
            groups={
                name: helpers.Group(
                    group.out,
                    sorted(group.cooling),
                    group.pages,
                    group.at,
                    group.hold,
                    group.per,
                    self._line(name),
                    group.kept,
                    self._reserved(group=name),
                    group.copies,
                    self._reserved(group=name, woken=True),
                )
                for name, group in self.groups.items()
            },
            ready=self._ready(),
            waiting=[(name, round(self._unit(name).due)) for name in self._waiting()],
            queues={name: _shown(host) for name, host in self.hosts.items() if host.queues},
            delayed=[(round(due), *_url(url)) for due, _, url in sorted(self.delayed)],
            leased={
                worker: {token: _url(url) for token, url in held.items()}
                for worker, held in self.leased.items()
                if held
            },
            kept=set(self.kept),
            twins=dict(self.twins),
            leased_at=dict(self.leased_at),
            dead={(*_url(url), *rest) for url, *rest in self.dead.values()},
            untold={name: sorted(map(_url, urls)) for name, (_, urls) in self.untold.items()},
            workers=dict(self.workers),
            about={name: {} for name in self.workers},
            seeds=set(self.seeds),
            audit=set(filter(self.is_audited, self.seen)),
            layers=list(self.layers),
            resting={
                (host, shown(entry)): (round(due), counted_as)
                for (host, entry), (due, counted_as) in self.resting.items()
            },
            patterns=dict(self.patterns),
            set_aside={
                name: [one.key or shown(one.entry) for one in kept]
                for name, kept in self.set_aside.items()
                if kept
            },
        )

    # Their steps

    def _take_in(self, item: Push) -> bool:
        known = self.seeds if item.kind == Kind.SEED else self.seen
        if item.kind != Kind.UNFILTERED and item.key in known:
            self._count(duplicates=1)
            return False
        self._count(discovered=1)
        if item.kind == Kind.FILTERED:
            self._count(**{f"filtered:{item.entry.decode()}": 1})
        elif item.kind == Kind.SET_ASIDE:
            pattern, why, entry, key = unpack(item.entry)
            link = Push(Kind.LINK, item.host, item.level, entry, key.decode())
            self._set_aside(link, pattern.decode(), why.decode())
        else:
            self._enqueue(Url(item.host, item.level, item.entry))
        if item.kind != Kind.UNFILTERED:
            self.seen.add(item.key)
            self.layers[-1] += 1
            if item.kind != Kind.SEED:
                self._count(audit_new=self.is_audited(item.key))
        if item.kind == Kind.SEED:
            self.seeds.add(item.key)
        return True

    def _promote_due(self) -> None:
        due = sorted(one for one in self.delayed if one[0] <= self.now)
        for one in due:
            self.delayed.remove(one)
            self._count(delayed=-1, reserved=-one[2].is_seed, woken=-one[2].is_revisit)
            self._enqueue(one[2], first=True)
        for name in self._waiting():
            if self._unit(name).due <= self.now:
                self._touch(name) if name in self.hosts else self._touched_groups.add(name)
        self._place_touched()

    def _lease_first_of(self, name: str, worker: str) -> Taken:
        host = self.hosts[name]
        level = host.levels[-1]
        url = Url(name, level, host.queues[level].pop(0))
        if not host.queues[level]:
            del host.queues[level]
        host.out += 1
        self._tokens += 1
        self.leased.setdefault(worker, {})[self._tokens] = url
        if self.plan.speculate:
            self.leased_at[self._tokens] = self.now
        self._count(queued=-1, leased=1, reserved=-url.is_seed, woken=-url.is_revisit)
        if host.group:
            self.groups[host.group].out += 1
            self.leased_of[self._tokens] = host.group
            host.best = None
        self._place(host)
        self._place_groups()
        return self._tokens, url, host.failures, host.pages, host.group

    def _copy(self, worker: str, most: int) -> list[Taken]:
        """Lease what others have had for long once more."""
        copies: list[Taken] = []
        held = {
            token: (name, url)
            for name, leases in self.leased.items()
            for token, url in leases.items()
        }
        for token in sorted(self.leased_at, key=lambda one: (self.leased_at[one], str(one))):
            if len(copies) >= most or self.leased_at[token] + OLD_AFTER > self.now:
                break
            holder, url = held[token]
            if holder != worker and token not in self.kept and self._has_connection(url.host):
                copies.append(self._copy_to(worker, token, url))
        return copies

    def _copy_to(self, worker: str, token: int, url: Url) -> Taken:
        host = self.hosts[url.host]
        self._tokens += 1
        self.twins |= {token: self._tokens, self._tokens: token}
        del self.leased_at[token]
        self.leased.setdefault(worker, {})[self._tokens] = url
        host.out += 1
        host.copies += 1
        if host.group:
            self.groups[host.group].out += 1
            self.groups[host.group].copies += 1
            self.leased_of[self._tokens] = host.group
        self._place(host)
        self._place_groups()
        self._count(copies=1)
        return self._tokens, url, host.failures, host.pages, host.group

    def _has_connection(self, name: str) -> bool:
        """Whether one more request may be made to a host this instant, whatever it has queued."""
        host = self.hosts[name]
        most: float = 1 if host.failures else host.per or self.plan.per_host
        if host.group and self._is_paced:
            group = self.groups[host.group]
            most = 1 if host.failures else inf
            if not self._is_free(group, group.per or self.plan.per_host):
                return False
        return self._is_free(host, most)

    def _is_free(self, unit: Host | Group, connections: float) -> bool:
        resting = sum(due > self.now for due in unit.cooling)
        return (unit.hold or 0) <= self.now and unit.out + resting < connections

    def _twin_of(self, token: int) -> tuple[str, int] | None:
        """Who holds the same URL, and by which token."""
        other = self.twins.get(token)
        holders = [name for name, leases in self.leased.items() if other in leases]
        return (holders[0], other) if other is not None and holders else None

    def _withdraw(self, worker: str, token: int) -> None:
        """A lease ends of which nothing comes for its URL."""
        host = self._touch(self.leased[worker][token].host)
        host.copies -= 1
        if group := self.leased_of.get(token):
            self.groups[group].copies -= 1
        self._end(worker, token)
        self._count(leased=1)

    def _settle(self, worker: str, how: Settlement) -> bool:
        url = self.leased.get(worker, {}).get(how.token)
        if url is None:
            return False
        if how.token not in self.kept:
            minutes = (how.pause_ms - how.ended_ago_ms) // MINUTE_MS
            self._judge(self._release(how.token, url, minutes, how.pause_ms > 0), url, how)
        self._settle_in(self._touch(url.host), how.group, 0)
        twin = self._twin_of(how.token)
        if how.token in self.twins and self.twins[how.token] is None:
            self._withdraw(worker, how.token)
            self._count(late=-1)  # it was counted when its twin won
            return False
        if twin and how.verdict in ("retry", "wait", "return"):
            self._withdraw(worker, how.token)
            self._count_response(how)
            return True
        if how.verdict == "keep":
            self._keep(how.token, self._touch(url.host))
            return True
        if twin:
            self.twins[twin[1]] = None
            self._count(late=1)
        group = self.leased_of.get(how.token, "")
        self._decide(url, how, self._end(worker, how.token), group)
        self._count_response(how)
        return True

    def _decide(self, url: Url, how: Settlement, host: Host, group: str) -> None:
        match how.verdict:
            case "done":
                host.pages += 1
                if group:
                    self.groups[group].pages += 1
                self._count(done=1)
                self._rest(url.host, how, "done")
            case "filtered":
                self._count(**{f"filtered:{how.reason}": 1})
                self._rest(url.host, how, f"filtered:{how.reason}")
            case "set_aside":
                assert how.entry is not None
                kept = Push(Kind.UNFILTERED, url.host, url.level, url.entry, "")
                self._set_aside(kept, how.reason, how.entry.decode())
            case "dead":
                self._bury(url.tried(), how.reason)
            case "retry":
                again = url._replace(entry=how.entry) if how.entry else url
                self._delay(how.token, again.tried(), how.delay_ms // MINUTE_MS)
            case "wait":
                self._delay(how.token, url, how.delay_ms // MINUTE_MS)
            case "return":
                self._enqueue(url, first=True)

    def _count_response(self, how: Settlement) -> None:
        if how.status:
            self._count(**{f"status:{how.status}": 1})
        self._count(bytes=how.size)

    def _rest(self, host: str, how: Settlement, counted_as: str) -> None:
        if how.entry:
            asked = host, how.entry
            self._count(resting=asked not in self.resting)
            self.resting[asked] = self.now + how.delay_ms // MINUTE_MS, counted_as

    def _wake(self, name: str, entry: bytes, counted_as: str) -> None:
        host = self._touch(name)
        if counted_as == "done":
            host.pages = max(0, host.pages - 1)
            if host.group:
                self.groups[host.group].pages = max(0, self.groups[host.group].pages - 1)
            self._count(revisits=1)
        self._count(**{counted_as: -1, "resting": -1})
        self._enqueue(Url(name, REVISIT, entry))

    def _has_turn(self, asked: tuple[str, bytes]) -> bool:
        host = self._touch(asked[0])
        keeper = self.groups[host.group] if host.group and self._is_paced else host
        if (held := max(host.hold or 0, keeper.hold or 0)) > self.now:
            self.resting[asked] = held, self.resting[asked][1]
            return False
        pause = max(self.plan.delay_ms / MINUTE_MS, host.pause or 0)
        times = 2 if host.has_new or (keeper is not host and self._line_has_new(host.group)) else 1
        lasts = times * pause / (keeper.per or self.plan.per_host)
        if self.now >= (keeper.revisit or 0):
            late = self.now if keeper.revisit is None else max(keeper.revisit, self.now - SECOND)
            keeper.revisit = late + lasts if lasts else None
            return True
        turn = max(keeper.revisit or 0, keeper.turns)
        keeper.turns = turn + lasts
        self.resting[asked] = turn, self.resting[asked][1]
        return False

    def _line_has_new(self, group: str) -> bool:
        line = self._line(group)
        return bool(line) and self._touch(line[-1]).has_new

    def _used(self) -> int:
        """Pages of the budget: each revisit is one more."""
        return self.counts["done"] + self.counts["leased"] + self.counts["revisits"]

    def _keep(self, token: int, host: Host) -> None:
        if token not in self.kept:
            self._count_kept(token, host, 1)
        self.kept.add(token)

    def _end(self, worker: str, token: int) -> Host:
        host = self._touch(self.leased[worker].pop(token).host)
        if token in self.kept:
            self._count_kept(token, host, -1)
        self.kept.discard(token)
        self.leased_of.pop(token, None)
        self.leased_at.pop(token, None)
        self.twins.pop(token, None)
        self._count(leased=-1)
        return host

    def _count_kept(self, token: int, host: Host, by: int) -> None:
        host.kept += by
        if group := self.leased_of.get(token):
            self.groups[group].kept += by
            self._touched_groups.add(group)

    def _set_aside(self, kept: Push, pattern: str, why: str) -> None:
        name = f"{kept.host} {pattern}"
        known = self.patterns.get(name) or helpers.Pattern(why, self.now, urls=0)
        if known.released is not None:
            self._enqueue(Url(kept.host, kept.level, kept.entry))
            return
        self.patterns[name] = known._replace(urls=known.urls + 1)
        self.set_aside.setdefault(name, []).append(kept)
        self._count(**{"filtered:pattern": 1})

    def _judge(self, keeper: Host | Group, url: Url, how: Settlement) -> None:
        host = self.hosts[url.host]
        if how.per_host:
            keeper.per = how.per_host if how.per_host != self.plan.per_host else None
        if how.failed:
            host.failures = host.failures + 1 if how.failed > 0 else 0
            is_own = how.pause_ms > self.plan.delay_ms + CLOCK_MS
            host.pause = how.pause_ms // MINUTE_MS if is_own else None
        if how.hold_ms:
            held = keeper if how.failed > 1 else host
            held.hold = max(held.hold or 0, self.now + how.hold_ms // MINUTE_MS)

    def _settle_in(self, host: Host, group: str, per_host: int) -> None:
        if group and host.group != group:
            host.group, host.at = group, None
            self.groups.setdefault(group, Group())
            self._touched_groups.add(group)
        if per_host:
            keeper = self.groups[group] if group and self._is_paced else host
            keeper.per = per_host if per_host != self.plan.per_host else None

    def _take_back(self, worker: str, token: int, url: Url, apart: float) -> bool | None:
        """Whether it is queued again, or None if it is another's."""
        if token not in self.kept:
            own_pause = self.hosts[url.host].pause or 0
            minutes = max(self.plan.delay_ms // MINUTE_MS, own_pause)
            self._release(token, url, minutes, minutes > 0)
        twin = self._twin_of(token)
        if twin or self.twins.get(token, 0) is None:
            if twin:
                self.leased[twin[0]][twin[1]] = self.leased[twin[0]][twin[1]].tried()
            self._withdraw(worker, token)
            return None
        self._end(worker, token)
        if url.attempts >= self.plan.max_attempts:
            self._bury(url, "worker_lost")
            return False
        if url.attempts == 1:
            self._enqueue(url, first=True)
        else:
            self._delay(token, url, apart)
        return True

    def _release(self, token: int, url: Url, minutes: int, pauses: bool) -> Host | Group:
        """Returns who keeps the pace of the host."""
        keeper: Host | Group
        keeper = host = self._touch(url.host)
        host.out -= 1
        if token in self.leased_of:
            group = self.groups[self.leased_of[token]]
            self._touched_groups.add(self.leased_of[token])
            group.out -= 1
            keeper = group if self._is_paced else host
        if pauses:
            keeper.cooling.append(self.now + minutes)
        return keeper

    def _enqueue(self, url: Url, *, first: bool = False) -> None:
        queue = self._touch(url.host).queues.setdefault(url.level, [])
        queue.insert(0 if first else len(queue), url.entry)
        self._count(queued=1, reserved=url.is_seed, woken=url.is_revisit)

    def _delay(self, token: int, url: Url, minutes: float) -> None:
        if url.level == FIRST:
            host = self._touch(url.host)
            host.hold = max(host.hold or 0, self.now + minutes)
        member = pack([*url, token])
        self.delayed.append((self.now + minutes, member, url))
        self._count(delayed=1, reserved=url.is_seed, woken=url.is_revisit)

    def _bury(self, url: Url, reason: str) -> None:
        letter, times = helpers.letter(url.host, url.entry[2:].decode()), 0
        if letter in self.dead:
            times = self.dead[letter][2]
            self._open(letter)
            self._count(**{"filtered:dead_again": 1})
        self.dead[letter] = url, reason, times + 1
        self._count(**{"dead": 1, f"dead:{reason}": 1})

    def _open(self, letter: int) -> Url:
        url, reason, _ = self.dead.pop(letter)
        self._count(**{"dead": -1, f"dead:{reason}": -1})
        return url

    # Hosts

    def _touch(self, name: str) -> Host:
        if name not in self._touched:
            self._touched.append(name)
        return self.hosts.setdefault(name, Host())

    def _place_touched(self) -> None:
        for name in self._touched:
            self._place(self.hosts[name])
        self._touched = []
        self._place_groups()

    def _place(self, host: Host) -> None:
        if host.group:
            self._touched_groups.add(host.group)
        host.cooling = [due for due in host.cooling if due > self.now]
        if _is_reached(self.plan.pages_per_host, host.pages):
            self._drop_own(host, "host_limit")
        if is_given_up := _is_reached(self.plan.give_up, host.failures):
            self._drop_own(host, "host_down")
        if self._is_spent(host):
            self._drop_own(host, "domain_limit")
        if host.hold and host.hold <= self.now:
            host.hold = None
        best = host.rank
        was = host.at, host.best
        if best is None:
            host.at = None
        elif (is_given_up or not host.hold) and self._free_slots(host) > 0:
            host.at = "ready"
        else:
            host.at = "waiting" if host.hold or host.cooling else None
        host.best = best
        if host.at == "ready" and was != ("ready", best):
            self._turns += 1
            host.turn = self._turns

    def _place_groups(self) -> None:
        """A group stands where the first of its hosts that could be contacted would stand."""
        for name in self._touched_groups:
            group = self.groups[name]
            group.cooling = [due for due in group.cooling if due > self.now]
            if group.hold and group.hold <= self.now:
                group.hold = None
            line = self._line(name)
            if line and (self._is_to_drop(line[0]) or self._has_room(name, line[0])):
                group.at = "ready"
            else:
                group.at = "waiting" if line and (group.hold or group.cooling) else None
        self._touched_groups = set()

    def _reserved(
        self, group: str | None = None, host: Host | None = None, *, woken: bool = False
    ) -> int:
        """Seeds that wait, or pages to revisit: all, or those of a group or a host."""
        queued = [
            Url(name, level, entry)
            for name, one in self.hosts.items()
            for level, queue in one.queues.items()
            for entry in queue
        ]
        return sum(
            url.is_revisit if woken else url.is_seed
            for url in [*queued, *(url for _, _, url in self.delayed)]
            if group is None or self.hosts[url.host].group == group
            if host is None or self.hosts[url.host] is host
        )

    def _has_room(self, name: str, first: str) -> bool:
        group, plan, free = self.groups[name], self.plan, 1
        if self._is_paced:
            free = (group.per or plan.per_host) - group.out - len(group.cooling)
        if plan.pages_per_domain and not self.hosts[first].next_has_moved:
            taken = group.pages + group.out + group.kept - group.copies
            if self.hosts[first].next_is_new:
                taken += self._reserved(group=name, woken=True)
            if self.hosts[first].next_is_link:
                taken += self._reserved(group=name)
            free = min(free, plan.pages_per_domain - taken)
        return not group.hold and free > 0

    @property
    def _is_paced(self) -> bool:
        return self.plan.group != HOST

    def _is_spent(self, host: Host) -> bool:
        most = self.plan.pages_per_domain
        return bool(host.group) and _is_reached(most, self.groups[host.group].pages)

    def _is_to_drop(self, name: str) -> bool:
        return self._is_spent(self.hosts[name]) and not self.hosts[name].next_has_moved

    def _free_slots(self, host: Host) -> float:
        free: float = (host.per or self.plan.per_host) - host.out - len(host.cooling)
        if host.group and self._is_paced:
            free = inf
        if host.failures:
            free = 1 - host.out - len(host.cooling)
        if self.plan.pages_per_host and not host.next_has_moved:
            taken = host.pages + host.out + host.kept - host.copies
            if host.next_is_new:
                taken += self._reserved(host=host, woken=True)
            if host.next_is_link:
                taken += self._reserved(host=host)
            free = min(free, self.plan.pages_per_host - taken)
        return free

    def _drop_own(self, host: Host, reason: str) -> None:
        """All but a robots.txt that has moved here, for which another host waits."""
        moved = host.queues.pop(MOVED, None)
        self._drop_queue(host, reason)
        if moved:
            host.queues[MOVED] = moved

    def _drop_queue(self, host: Host, reason: str) -> int:
        dropped = sum(map(len, host.queues.values()))
        self._count(**{"queued": -dropped, f"filtered:{reason}": dropped})
        seeds = [queue for level, queue in host.queues.items() if HIGHEST < level < REVISIT]
        self._count(reserved=-sum(map(len, seeds)), woken=-len(host.queues.get(REVISIT, [])))
        host.queues = {}
        return dropped

    def _unit(self, name: str) -> Host | Group:
        return self.groups.get(name) or self.hosts[name]

    def _ready(self) -> list[str]:
        alone = [(self._rank(name), name) for name in self._line("")]
        groups = [
            (self._rank(self._line(name)[0]), name)
            for name, group in self.groups.items()
            if group.at == "ready"
        ]
        return [name for _, name in sorted(alone + groups)]

    def _line(self, group: str) -> list[str]:
        """The hosts of a group, or of none, that could be contacted."""
        hosts = self.hosts.items()
        line = [name for name, host in hosts if host.at == "ready" and host.group == group]
        return sorted(line, key=self._rank)

    def _rank(self, name: str) -> tuple[float, int]:
        return -(self.hosts[name].best or 0), self.hosts[name].turn

    def _waiting(self) -> list[str]:
        units = [*self.hosts.items(), *self.groups.items()]
        line = [(unit.due, name) for name, unit in units if unit.at == "waiting"]
        return [name for _, name in sorted(line)]

    def _count(self, **by: int) -> None:
        self.counts.update(by)


def _record(host: Host, reserved: int) -> helpers.Host:
    return helpers.Host(
        host.levels,
        host.out,
        sorted(host.cooling),
        host.pages,
        host.at,
        host.failures,
        host.hold and round(host.hold),
        host.kept,
        host.group,
        host.per,
        host.pause,
        reserved,
        host.copies,
    )


def _shown(host: Host) -> dict[float, list[str]]:
    return {level: [shown(entry) for entry in queue] for level, queue in host.queues.items()}


def _url(url: Url) -> tuple[str, float, str]:
    return url.host, url.level, shown(url.entry)


def _is_link(level: float) -> bool:
    """Whether page budgets keep no page for it."""
    return level <= HIGHEST


def _is_reached(limit: int | None, count: int) -> bool:
    return limit is not None and limit <= count
