"""The frontier as a worker sees it: one queue, though it may lie on many shards.

Hosts are spread over the shards by hash; whatever concerns a host happens in its shard. The
few things that concern the whole crawl (opening, finishing, the page budget) are put together
here from steps that each touch one shard and can be repeated after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from redis.asyncio import Redis

from crawlproj.frontier import (
    combined,
    cookie_store,
    ending,
    holds,
    keys,
    opening,
    page_budget,
    scope,
)
from crawlproj.frontier import plan as plans
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.concurrent import all_of
from crawlproj.frontier.levels import level, seed_level
from crawlproj.frontier.limits import CHANGEABLE_LIMITS, HOST, UNLIMITED, Limits
from crawlproj.frontier.messages import (
    Batch,
    Lease,
    Opened,
    Push,
    Reclaimed,
    Renewed,
    Settlement,
    State,
)
from crawlproj.frontier.pacing import Overrides
from crawlproj.frontier.refusals import CrawlWiped
from crawlproj.frontier.replication import Replication
from crawlproj.frontier.shard import Shard
from crawlproj.urls import registrable_domain

DISMISSALS = "dismissals"
"""Field of META: how often those who wait for seeds were sent away."""


@dataclass
class Frontier:
    """All shards of one crawl, for one worker."""

    client: Any
    crawl: str
    worker: str
    audit_one_in: int = 1024
    shards: list[Shard] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    replication: Replication | None = None
    overrides: Overrides = field(default_factory=Overrides)
    """What some hosts have of their own: as configured, and as changed while the crawl runs."""
    on_plan: Callable[[dict[str, Any]], None] | None = None
    """Called with the plan when it may have been changed."""

    def __post_init__(self) -> None:
        self._configured = self.overrides
        self._paces = 0

    async def open(
        self,
        limits: Limits,
        plan: dict[str, Any],
        run: str,
        *,
        brings_seed: bool = True,
        seed_found_at: str = "",
    ) -> Opened:
        """Begin, join or resume the crawl, or find that there is none to work at without a seed.
        The limits and plan of a crawl that exists win."""
        offer = opening.Offer(limits, plan, run, brings_seed, seed_found_at)
        opened = await opening.open_first(self._make_shard, offer)
        self.limits = Limits.of(opened.plan)
        self.shards = opening.shards_of(self._make_shard, self.limits, opened.epoch)
        if opened.mode != "waiting":
            await opening.open_others(self.shards, opened, self.limits, offer)
        return opened

    async def attach(self) -> dict[str, str]:
        """Look at the crawl that is there, without joining; its META, empty if there is none."""
        meta = await opening.read_meta(self._make_shard)
        if meta:
            self.limits = Limits.of(plans.read(meta["plan"]))
            self.shards = opening.shards_of(self._make_shard, self.limits, meta["epoch"])
        if meta.get("waits") == "1":  # for its first seed, with which the other shards begin
            del self.shards[1:]
        return meta

    async def attach_anyhow(self) -> bool:
        """Attach to whatever shards there are, for the plan cannot be read; False if none is."""
        count = 0
        while await self.client.exists(keys.meta(self.crawl, count)):
            count += 1
        self.limits = Limits(shards=max(1, count))
        self.shards = opening.shards_of(self._make_shard, self.limits, "")
        return count > 0

    def _make_shard(self, number: int, geometry: Geometry, epoch: str) -> Shard:
        return Shard(self.client, self.crawl, number, geometry, self.audit_one_in, epoch=epoch)

    def shard_of(self, host: str) -> Shard:
        """Where everything about a host is kept, together with its group."""
        name = registrable_domain(host) if self.limits.by_domain else host
        return self.shards[crc32(name.encode()) % len(self.shards)]

    def seen(self, host: str, key: str) -> bool:
        """True if this worker already knows that the key has been taken in; no round trip.
        Audited keys are never answered here: Redis must see each of them."""
        shard = self.shards[0] if len(self.shards) == 1 else self.shard_of(host)
        return key in shard.replica and not shard.sampled(key)

    @property
    def is_stale(self) -> bool:
        """True if another server answers than the one that what has been seen was learnt from."""
        return any(shard.is_stale for shard in self.shards)

    @property
    def servers(self) -> list[bytes | None]:
        """Which servers keep the shards, as far as it is known."""
        return [shard.server for shard in self.shards]

    async def keeps(self, shard: Shard) -> bool:
        """Return when replicas have what was pushed there; False if it has been lost."""
        return self.replication is None or await self.replication.keeps(shard, self.worker)

    async def warm(self) -> None:
        """Learn what has been seen so far."""
        for shard in self.shards:
            await shard.warm()

    def by_shard(self, batch: Iterable[Push]) -> dict[int, list[Push]]:
        """Pushes grouped by the shard they go to; each group is pushed, and repeated, by itself."""
        groups: dict[int, list[Push]] = {}
        has_more_to_say = self.limits.by_domain or bool(self.overrides)
        for item in batch:
            told = self._in_group(item) if has_more_to_say else item
            groups.setdefault(self.shard_of(item.host).number, []).append(told)
        return groups

    def _in_group(self, item: Push) -> Push:
        group = registrable_domain(item.host) if self.limits.by_domain else ""
        per_host = self.overrides.for_host(self._pace_keeper(item.host, group)).per_host
        return item._replace(group=group, per_host=per_host or 0) if group or per_host else item

    def _pace_keeper(self, host: str, group: str) -> str:
        return group if group and self.limits.group != HOST else host

    def connections(self, lease: Lease) -> int:
        """How many the host of a lease may have, or the group with which it keeps one pace."""
        keeper = self._pace_keeper(lease.host, lease.group)
        return self.overrides.for_host(keeper).per_host or self.limits.per_host

    async def push(self, batch: Iterable[Push]) -> int:
        """Take in URLs, once; returns how many were new."""
        groups = self.by_shard(batch)
        return sum([sum(await self.shards[n].push(self.worker, g)) for n, g in groups.items()])

    def seed_level(self, priority: float) -> float:
        """The queue of a seed."""
        return seed_level(priority) if self.limits.has_page_budget else level(priority)

    async def lease(self, wanted: int, *, no_links: bool = False) -> Batch:
        """Take up to so many URLs, from all shards alike."""
        each, has_others = -(-wanted // len(self.shards)), len(self.shards) > 1
        batches = await all_of(
            shard.lease(self.worker, each, no_links=no_links, has_others=has_others)
            for shard in self.shards
        )
        if len(batches) == 1:
            return batches[0]
        await page_budget.move(self.shards, [batch.spare or 0 for batch in batches])
        return combined.batch(batches)

    async def new_holds(self, leases: Iterable[Lease]) -> dict[str, int]:
        """Hosts of these leases, and their groups, that others have found to be left alone, and
        for how many ms. None where a host is leased to one worker at a time."""
        found: dict[str, int] = {}
        if self.limits.per_host == 1 and not self.overrides:
            return found
        by_shard: dict[int, list[Lease]] = {}
        for lease in leases:
            by_shard.setdefault(lease.shard, []).append(lease)
        for number, some in by_shard.items():
            found |= await holds.new_holds(self.shards[number], some)
        return found

    async def held(self) -> list[Lease]:
        """All leases that Redis says are this worker's."""
        return [lease for shard in self.shards for lease in await shard.held(self.worker)]

    async def settle(
        self, batch: Iterable[tuple[int, Settlement]], new_items: Mapping[str, int] | None = None
    ) -> int:
        """End leases, each given with its shard, and count the items that spiders have yielded,
        by their class; returns how many leases were no longer held."""
        by_shard: dict[int, list[Settlement]] = {}
        for number, settlement in batch:
            by_shard.setdefault(number, []).append(settlement)
        late = 0
        for number, items in by_shard.items():
            late += len(await self.shards[number].settle(self.worker, items, new_items or {}))
            new_items = None
        return late

    @property
    def cookie_changes(self) -> int:
        """How often, as was last told, workers were given cookies that all of them share."""
        return sum(shard.cookie_changes for shard in self.shards)

    async def share_cookies(self, changes: Mapping[str, Mapping[str, bytes]]) -> None:
        """Keep cookies for all workers. Every shard tells of it, and only then are the URLs pushed
        that need them: whoever is given one of those has heard of the cookies."""
        for shard in self.shards:
            await cookie_store.share(shard, changes if shard.number == 0 else {})

    async def cookies_of(self, domains: Sequence[str]) -> list[dict[str, bytes]]:
        """The cookies that workers share, of these registrable domains."""
        return await cookie_store.cookies_of(self.shards[0], domains)

    async def renew(self, timeout_ms: int, about: dict[str, Any]) -> Renewed:
        """The heartbeat on every shard; unknown if any of them had declared the worker dead."""
        replies = await all_of(shard.renew(self.worker, timeout_ms, about) for shard in self.shards)
        if replies[0].paces != self._paces:
            self.overrides = self._configured.changed(await self.paces())
            await self._hear_plan()
            self._paces = replies[0].paces
        return combined.renewed(replies)

    async def state(self) -> State:
        """The crawl's state, without asking for anything else."""
        found = await self.client.hget(keys.meta(self.crawl, 0), "state")
        if found is None:
            raise CrawlWiped("no crawl is open here")
        state: State = found.decode()
        return state

    async def change_pace(self, host: str, values: dict[str, Any] | None) -> None:
        """Treat a host differently from now on: every worker hears of it with its heartbeat."""
        await self.shards[0].change_pace(host, values)

    async def replan(
        self, plan: str, becomes: str, limits: Limits, lasts_ms: int | None, *, mends: bool = False
    ) -> bool:
        """Have all workers go by another plan from now on; False if someone else has changed it.
        A larger page budget begins on the first shard, and goes where it is needed from there.
        `mends` says that other shards than the first may have been left with any plan."""
        more = limits.pages - self.limits.pages
        for shard in reversed(self.shards):
            fields = limits.fields(shard.number, becomes)
            kept = {name: value for name, value in fields.items() if name not in ("pages", "plan")}
            pages = more if shard.number == 0 else 0
            before = "" if mends and shard.number else plan
            if not await shard.replan(before, becomes, kept, pages, lasts_ms):
                return False
        return True

    async def _hear_plan(self) -> None:
        """Go by what has been changed of the plan."""
        meta = await self.shards[0].meta()
        plan = plans.read(meta.get("plan", ""))
        limits = Limits.of(plan)
        self.limits = replace(
            self.limits, **{name: getattr(limits, name) for name in CHANGEABLE_LIMITS}
        )
        if self.on_plan is not None:
            self.on_plan(plan)

    async def paces(self) -> dict[str, dict[str, Any]]:
        """Hosts, and what has been changed for them while the crawl runs."""
        return await self.shards[0].paces()

    async def reclaim(self) -> Reclaimed:
        """Queue again what dead workers held."""
        return combined.reclaimed([await shard.reclaim() for shard in self.shards])

    async def leave(self, worker: str = "") -> None:
        """Say goodbye on every shard, or on behalf of a worker that no longer can."""
        for shard in self.shards:
            await shard.leave(worker or self.worker)

    async def reconnect(self) -> None:
        """Leave a server that is no longer the master: what REDIS_URL names may lead elsewhere
        now. The nodes of a cluster tell themselves where to go."""
        if isinstance(self.client, Redis):
            # Those in use would break off what others do; they come here when they fail.
            await self.client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        """Let go of the connections."""
        if self.replication is not None:
            await self.replication.close()
        await self.client.aclose()

    async def widen_scope(self, names: Iterable[str]) -> None:
        """Bring hosts or domains into scope, on every shard, before their seeds are pushed."""
        wanted = sorted(names)
        for shard in self.shards:
            await scope.widen(shard, wanted)

    async def scope_since(self, position: int) -> list[str]:
        """What is in scope behind the first so many names, of the shard that is the last to learn
        of it."""
        return await scope.since(self.shards[-1], position)

    async def in_scope(self, names: Collection[str]) -> set[str]:
        """Which of these hosts or domains are in scope."""
        return await scope.among(self.shards[-1], names)

    async def counts(self) -> dict[str, int]:
        """The ledger of the whole crawl."""
        return await ending.counts(self.shards)

    async def finish(self) -> State:
        """End the crawl if nothing is left anywhere; returns its state afterwards."""
        return await ending.finish(self.shards, self.keeps)

    async def taken(self, keys_by_host: Sequence[tuple[str, str]]) -> list[bool]:
        """Which of many seeds, each its host and key, have been taken in."""
        pipeline = self.client.pipeline(transaction=False)
        for host, key in keys_by_host:
            pipeline.sismember(keys.seeds(self.crawl, self.shard_of(host).number), key)
        return [bool(known) for known in await pipeline.execute()]

    async def has_taken(self, host: str, key: str) -> bool:
        """Whether a seed has been taken in."""
        known = keys.seeds(self.crawl, self.shard_of(host).number)
        return bool(await self.client.sismember(known, key))

    async def has_new(self, seeds: Iterable[Push]) -> bool:
        """Whether one of these seeds has not been taken in yet."""
        for seed in seeds:
            if not await self.has_taken(seed.host, seed.key):
                return True
        return False

    async def reopen(self) -> None:
        """Go on with a crawl that has finished, or is half ended."""
        await ending.reopen(self.shards)

    async def let_more_come(self) -> None:
        """Make a crawl that has finished a stopped one, which the next start resumes; one that is
        only half ended goes on at once."""
        if await self.state() == "finished":
            await self.control("stopped", ["finished"])
        else:
            await self.reopen()

    async def control(self, wanted: State, allowed_from: Sequence[State]) -> State:
        """Set the state on every shard; returns the first shard's afterwards. Workers obey the
        gravest and people are told the first's: who dies half-way must not leave that running
        while others are paused."""
        order = reversed(self.shards) if wanted == "running" else self.shards
        states = {one.number: await one.control(wanted, allowed_from) for one in order}
        return states[0]

    async def dismiss(self) -> None:
        """Send those away who wait at a crawl that has finished for the next to begin."""
        await self.client.hincrby(keys.meta(self.crawl, 0), DISMISSALS, 1)

    async def drain(self, reason: str) -> None:
        """Filter all that is still queued or delayed."""
        for shard in self.shards:
            while await shard.drain(reason):
                await asyncio.sleep(0)

    async def balance_pages(self) -> None:
        """Move page budget from shards that cannot use it to one that could."""
        if self.limits.pages != UNLIMITED:
            await page_budget.balance(self.shards)

    async def keep_pages_for_seeds(self) -> None:
        """Move page budget that links would have to shards with more seeds than pages."""
        if self.limits.pages != UNLIMITED:
            await page_budget.keep_for_seeds(self.shards)
