"""The frontier as a worker sees it: one queue, though it may lie on many shards.

Hosts are spread over the shards by hash; whatever concerns a host happens in its shard. The
few things that concern the whole crawl (opening, finishing, the page budget) are put together
here from steps that each touch one shard and can be repeated after a crash.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from redis.asyncio import Redis

from crawlproj.frontier import (
    combined,
    finishing,
    holds,
    keys,
    opening,
    page_budget,
    scope,
)
from crawlproj.frontier.bloom import Geometry
from crawlproj.frontier.messages import (
    WITH_SEED,
    Arrival,
    Batch,
    Lease,
    LeaseName,
    Opened,
    Push,
    Renewed,
    Settlement,
    State,
)
from crawlproj.frontier.pacing import Overrides
from crawlproj.frontier.plan import CHANGEABLE, HOST, Plan
from crawlproj.frontier.replication import Replication
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.shared_pace import SharedPace, Turn
from crawlproj.urls import registrable_domain

LEFT_MS, LEFT_SHARE = 100, 8
"""How long a host that falls due is left to the worker that has a connection to it, at most: long
enough for it to come, and no more than this share of the pause where it does not."""


@dataclass
class Frontier:
    """All shards of one crawl, for one worker."""

    client: Any
    crawl: str
    worker: str
    audit_one_in: int = Shard.audit_one_in
    shards: list[Shard] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    unreadable: str = ""
    """What of the plan is not known to this version, which then only looks at the crawl."""
    replication: Replication | None = None
    overrides: Overrides = field(default_factory=Overrides)
    """What some hosts have of their own: as configured, and as changed while the crawl runs."""
    before_lease: Callable[[int], Awaitable[None]] | None = None
    """Called with how many URLs are about to be leased, where pages are revisited."""
    on_plan: Callable[[], None] | None = None
    """Called when the plan may have been changed."""

    def __post_init__(self) -> None:
        self._configured = self.overrides
        self._paces = 0
        self._seeds_may_lack_pages = True
        self._shared_pace: SharedPace | None = None

    async def open(self, plan: Plan, run: str, arrival: Arrival = WITH_SEED) -> Opened:
        """Begin, join or resume the crawl, or find that there is none to work at without a seed.
        The plan of a crawl that exists wins."""
        offer = opening.Offer(plan, run, arrival)
        opened = await opening.open_first(self._make_shard, offer)
        self.plan = Plan.decode(opened.plan)
        self.shards = opening.shards_of(self._make_shard, self.plan, opened.epoch)
        if self.plan.shared_pace:
            self._shared_pace = SharedPace(self.client, self.crawl, self.worker)
        if opened.mode != "waiting":
            await opening.open_others(self.shards, opened, self.plan, offer)
        return opened

    async def attach(self, *, only_to_look: bool = False) -> dict[str, str]:
        """Come to the crawl that is there, without joining; its META, empty if there is none."""
        meta = await opening.read_meta(self._make_shard)
        if meta:
            self.plan, self.unreadable = opening.plan_of(meta, only_to_look=only_to_look)
            self.shards = opening.shards_of(self._make_shard, self.plan, meta["epoch"])
        if meta.get("waits") == "1":  # for its first seed, with which the other shards begin
            del self.shards[1:]
        return meta

    async def attach_without_plan(self) -> bool:
        """Attach to whatever shards there are, for the plan cannot be read; False if none is."""
        count = 0
        while await self.client.exists(keys.meta(self.crawl, count)):
            count += 1
        self.plan = Plan(shards=max(1, count))
        self.shards = opening.shards_of(self._make_shard, self.plan, "")
        return count > 0

    def _make_shard(self, number: int, geometry: Geometry, epoch: str) -> Shard:
        return Shard(self.client, self.crawl, number, geometry, self.audit_one_in, epoch=epoch)

    def shard_of(self, host: str) -> Shard:
        """Where everything about a host is kept, together with its group."""
        name = registrable_domain(host) if self.plan.by_domain else host
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

    async def wait_for_replicas(self, shard: Shard) -> bool:
        """Return when replicas have what was pushed there; False if it has been lost."""
        return self.replication is None or await self.replication.wait_for_replicas(
            shard, self.worker
        )

    async def warm(self) -> None:
        """Learn what has been seen so far. What was known is forgotten at all shards before: a link
        that is met meanwhile must not be taken for seen at a shard which has lost it."""
        for shard in self.shards:
            shard.forget_seen()
        for shard in self.shards:
            await shard.warm()

    def by_shard(self, batch: Iterable[Push]) -> dict[int, list[Push]]:
        """Pushes grouped by the shard they go to; each group is pushed, and repeated, by itself."""
        groups: dict[int, list[Push]] = {}
        has_more_to_say = self.plan.by_domain or bool(self.overrides)
        for item in batch:
            told = self._in_group(item) if has_more_to_say else item
            groups.setdefault(self.shard_of(item.host).number, []).append(told)
        return groups

    def _in_group(self, item: Push) -> Push:
        group = registrable_domain(item.host) if self.plan.by_domain else ""
        per_host = self.overrides.for_host(self._pace_keeper(item.host, group)).per_host
        return item._replace(group=group, per_host=per_host or 0) if group or per_host else item

    def _pace_keeper(self, host: str, group: str) -> str:
        return group if group and self.plan.group != HOST else host

    def connections(self, lease: Lease) -> int:
        """How many the host of a lease may have, or the group with which it keeps one pace."""
        keeper = self._pace_keeper(lease.host, lease.group)
        return self.overrides.for_host(keeper).per_host or self.plan.per_host

    async def lease(
        self, wanted: int, *, begins: int | None = None, no_links: bool = False
    ) -> Batch:
        """Take up to so many URLs, from all shards alike; of these `begins` are begun at once, if
        not all."""
        if self.before_lease is not None:
            await self.before_lease(wanted)
        batch = await self._lease(wanted, begins, no_links)
        if self._shared_pace is None:
            return batch
        return batch._replace(leases=await self.in_turn(batch.leases))

    async def _lease(self, wanted: int, begins: int | None, no_links: bool) -> Batch:
        """Links have none of a page budget while a shard lacks pages for its seeds: several workers
        may be moving some there at once, and then a shard has pages for a moment that belong to
        the seeds of another."""
        count = len(self.shards)
        each = math.ceil(wanted / count)
        begun = each if begins is None else math.ceil(begins / count)
        has_budget = count > 1 and self.plan.pages is not None
        held_back = no_links or (has_budget and self._seeds_may_lack_pages)
        batches = await combined.all_of(
            shard.lease(
                self.worker,
                each,
                begins=begun,
                left_ms=min(LEFT_MS, self.plan.delay_ms // LEFT_SHARE),
                no_links=held_back,
                has_others=count > 1,
            )
            for shard in self.shards
        )
        if len(batches) == 1:
            return batches[0]
        spare = [batch.spare or 0 for batch in batches]
        self._seeds_may_lack_pages = min(spare) < 0
        await page_budget.move(self.shards, spare)
        found = combined.batch(batches)
        if held_back and not (found.leases or no_links or self._seeds_may_lack_pages):
            return await self._lease(wanted, begins, no_links)
        return found

    async def new_holds(self, leases: Iterable[Lease]) -> dict[str, int]:
        """Hosts of these leases, and their groups, that other workers were told to leave alone, and
        for how many ms. Empty where a host is leased to one worker at a time."""
        found: dict[str, int] = {}
        if self.plan.per_host == 1 and not self.overrides:
            return found
        by_shard: dict[int, list[Lease]] = {}
        for lease in leases:
            by_shard.setdefault(lease.shard, []).append(lease)
        for number, some in by_shard.items():
            found |= await holds.new_holds(self.shards[number], some)
        return found

    async def held_leases(self) -> list[Lease]:
        """All leases that Redis says are this worker's."""
        turns = self._shared_pace.names if self._shared_pace is not None else set()
        held = [lease for shard in self.shards for lease in await shard.held_leases(self.worker)]
        if self._shared_pace is not None:
            self._shared_pace.forget(turns - {lease.name for lease in held})
        return held

    async def in_turn(self, leases: list[Lease]) -> list[Lease]:
        """Of leases that are not begun, those whose host no other crawl asks or has just asked; the
        others are returned, and their hosts left alone for as long."""
        if self._shared_pace is None or not leases:
            return leases
        early = await self._shared_pace.take_or_return(map(self._turn, leases))
        await self.settle(early)
        returned = {(shard, one.token) for shard, one in early}
        return [lease for lease in leases if lease.name not in returned]

    def _turn(self, lease: Lease) -> Turn:
        delay_s = self.overrides.for_host(lease.host).delay_s
        pause_ms = self.plan.delay_ms if delay_s is None else round(1000 * delay_s)
        keeper = self._pace_keeper(lease.host, lease.group)
        return Turn(lease, keeper, pause_ms, self.connections(lease))

    def settling(
        self, batch: Iterable[tuple[int, Settlement]], new_items: Mapping[str, int] | None = None
    ) -> combined.Settling:
        """A call that ends these leases, each given with its shard, and counts new items by their
        class. It can be repeated: call the same object again after an outage."""
        return combined.Settling(self.shards, self.worker, batch, new_items, self._end_turns)

    async def _end_turns(self, settled: list[tuple[int, Settlement]]) -> None:
        if self._shared_pace is not None:
            await self._shared_pace.end(settled)

    async def settle(self, batch: Iterable[tuple[int, Settlement]]) -> set[LeaseName]:
        """End leases; returns the names of those that were no longer held."""
        return await self.settling(batch)()

    async def renew(self, timeout_ms: int, about: dict[str, Any]) -> Renewed:
        """The heartbeat on every shard; unknown if any of them had declared the worker dead, or
        another crawl one of its turns as over."""
        replies = await combined.all_of(
            shard.renew(self.worker, timeout_ms, about) for shard in self.shards
        )
        has_turns = self._shared_pace is None or await self._shared_pace.renew(timeout_ms)
        if replies[0].paces != self._paces:
            self.overrides = self._configured.changed(await self.paces())
            await self._read_plan()
            self._paces = replies[0].paces
        renewed = combined.renewed(replies)
        return renewed if has_turns else renewed._replace(known=False)

    async def state(self) -> State:
        """The crawl's state, without asking for anything else."""
        return await finishing.state(self.client, self.crawl)

    async def change_pace(self, host: str, values: dict[str, Any] | None) -> None:
        """Treat a host differently from now on: every worker hears of it with its heartbeat."""
        await self.shards[0].change_pace(host, values)

    async def _read_plan(self) -> None:
        """Go by what has been changed of the plan."""
        meta = await self.shards[0].meta()
        now = Plan.decode(meta.get("plan", ""))
        self.plan = replace(self.plan, **{name: getattr(now, name) for name in CHANGEABLE})
        if self.on_plan is not None:
            self.on_plan()

    async def paces(self) -> dict[str, dict[str, Any]]:
        """Hosts, and what has been changed for them while the crawl runs."""
        return await self.shards[0].paces()

    async def leave(self, worker: str = "") -> None:
        """Say goodbye on every shard, or on behalf of a worker that no longer can."""
        for shard in self.shards:
            await shard.leave(worker or self.worker)

    async def reconnect(self) -> None:
        """Leave a server that is no longer the master, since the name in REDIS_URL may lead to
        another one now. The nodes of a cluster say by themselves where to go."""
        if isinstance(self.client, Redis):
            # Connections in use stay: to close them would break off what others do, and they fail
            # by themselves.
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
        """The names in scope after the first so many, as the last shard to learn of them has
        them."""
        return await scope.since(self.shards[-1], position)

    async def in_scope(self, names: Collection[str]) -> set[str]:
        """Which of these hosts or domains are in scope."""
        return await scope.among(self.shards[-1], names)

    async def counts(self) -> dict[str, int]:
        """The ledger of the whole crawl."""
        return await finishing.counts(self.shards)

    async def finish(self) -> State:
        """End the crawl if nothing is left anywhere; returns its state afterwards."""
        return await finishing.finish(self.shards, self.wait_for_replicas)

    async def taken(self, keys_by_host: Sequence[tuple[str, str]]) -> list[bool]:
        """Which of many seeds, each its host and key, have been taken in."""
        pipeline = self.client.pipeline(transaction=False)
        for host, key in keys_by_host:
            pipeline.sismember(keys.seeds(self.crawl, self.shard_of(host).number), key)
        return [bool(known) for known in await pipeline.execute()]

    async def has_new(self, seeds: Iterable[Push]) -> bool:
        """Whether one of these seeds has not been taken in yet."""
        return not all(await self.taken([(seed.host, seed.key) for seed in seeds]))

    async def reopen(self) -> None:
        """Go on with a crawl that has finished, or is half ended."""
        await finishing.reopen(self.shards)

    async def make_resumable(self) -> None:
        """Make a crawl that has finished a stopped one, which the next start resumes; one that is
        only half ended goes on at once."""
        if await self.state() == "finished":
            await self.set_state("stopped", ["finished"])
        else:
            await self.reopen()

    async def set_state(self, wanted: State, allowed_from: Sequence[State]) -> State:
        """Set the state on every shard; returns the first shard's afterwards. Workers obey
        the most severe state of all, people are shown that of the first shard: a command that dies
        half-way must not show a running crawl whose workers have paused."""
        order = reversed(self.shards) if wanted == "running" else self.shards
        states = {one.number: await one.set_state(wanted, allowed_from) for one in order}
        return states[0]

    async def filter_queued(self, reason: str) -> None:
        """Filter all that is still queued or delayed."""
        for shard in self.shards:
            while await shard.filter_queued(reason):
                await asyncio.sleep(0)

    async def balance_pages(self) -> None:
        """Move page budget from shards that cannot use it to one that could."""
        if self.plan.pages is not None:
            await page_budget.balance(self.shards)

    async def keep_pages_for_seeds(self) -> None:
        """Move page budget that links would have to shards with more seeds than pages."""
        if self.plan.pages is not None:
            await page_budget.keep_for_seeds(self.shards)
