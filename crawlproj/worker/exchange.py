"""A worker's side of the frontier: what it has taken, what it owes, and the loops in between.

Scrapy's engine is never made to wait for Redis. URLs are leased ahead into a buffer, new links
and ended requests are collected, and loops exchange them with the frontier: one leases, one hands
in (delivery.py: links and rows, and only then the pages they belong to), one keeps the heartbeat.
When Redis is away they wait for it, and nothing that was collected is dropped; a fourth breaks off
what is under way before others may count this worker as dead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any

from crawlproj import failpoints
from crawlproj.discover.known_links import Memo
from crawlproj.frontier.clock import clock_s
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Batch, Kind, Lease, Push, Settlement, State
from crawlproj.frontier.refusals import WorkerDeclaredDead
from crawlproj.plural import counted, plural
from crawlproj.server.memory import LOOK_EVERY_S
from crawlproj.worker.certainty import Certainty
from crawlproj.worker.delivery import Delivery
from crawlproj.worker.hand import Hand
from crawlproj.worker.known_scope import KnownScope
from crawlproj.worker.loops import Loops, woken
from crawlproj.worker.outages import Outages
from crawlproj.worker.prefetch import Supply
from crawlproj.worker.pulse import Tally
from crawlproj.worker.surroundings import Surroundings

logger = logging.getLogger(__name__)

POLL_S = 0.5
"""How long a worker with nothing to do sleeps at most: what other workers push shows then."""

STATE_EVERY_S = 1.0
"""How often a worker that leases nothing asks whether the crawl is to go on."""

BEGINS = ("running", "limit")
"""States in which what is in hand is begun."""

COALESCE_S = 0.03
"""How long ended requests, and hosts that fall due, are collected to be exchanged together; less
where hosts rest so briefly that they would notice."""


class Worker:
    """Buffers and loops; `take`, `push` and `end` never wait."""

    def __init__(
        self,
        frontier: Frontier,
        surroundings: Surroundings,
        *,
        prefetch: int,
        lease_timeout_s: float,
        tells_all: bool = False,
        backlog: int = 20_000,
        watermark: float = 0.85,
    ) -> None:
        self.frontier = frontier
        self.surroundings = surroundings
        self.supply = Supply(prefetch)
        self.lease_timeout_s = lease_timeout_s
        self._tells_all = tells_all
        self.state: State = "running"
        self.held = 0
        self._hand = Hand()
        self.memo = Memo()
        self.tally = Tally()
        self._outages = Outages(frontier.reconnect, self._come_back)
        self._retry_until_available = self._outages.retry_until_available
        self._delivery = Delivery(
            frontier,
            surroundings,
            self._retry_until_available,
            backlog=backlog,
            watermark=watermark,
        )
        self._scope = KnownScope(frontier, self._delivery.scope)
        self._certainty = Certainty(lease_timeout_s)
        self._told_at = time.monotonic()
        self._has_surplus = self._was_refused = False
        self._served_by: list[bytes | None] = []
        # A host then rests about 3 % longer than it must, and Redis is asked far less often.
        self._coalesce_s = min(COALESCE_S, frontier.limits.delay_ms / 16_000)
        self._lease_wake = asyncio.Event()
        self._flush_wake = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._beating = asyncio.Lock()
        self._loops = Loops(surroundings.give_up)

    # What the scheduler calls

    async def start(self) -> None:
        """Register, learn what has been seen, begin to lease."""
        while await self._sweep():
            pass
        await self._retry_until_available(self._beat)
        await self._retry_until_available(self.frontier.warm)
        self._served_by = self.frontier.servers
        watch = partial(self._certainty.watch, self.surroundings.break_off)
        self._loops.start(self._lease_loop, self._flush_loop, self._beat_loop, watch)

    def take(self) -> Lease | None:
        """The next URL to fetch, if one is at hand and it is still certain that it is ours."""
        if not self._hand.waiting:
            self.supply.missed(time.monotonic(), time.process_time())
            return None
        if not self._may_begin:
            self._was_refused = True
            return None
        if len(self._hand.waiting) <= self.supply.depth // 2:
            self._lease_wake.set()
        self.held += 1
        return self._hand.waiting.popleft()

    @property
    def _may_begin(self) -> bool:
        return self.is_sure and not self._delivery.is_full and self.state in BEGINS

    def _ask_again(self) -> None:
        """Wake an engine that got nothing of what is in hand, once it may have it: it would look
        again seconds later."""
        if self._was_refused and self._may_begin:
            self._was_refused = False
            self.surroundings.wake()

    @property
    def is_sure(self) -> bool:
        """False once others may soon count this worker as dead: it must not fetch any more."""
        return self._certainty.left_s > 0

    def seen(self, host: str, key: str) -> bool:
        """True if the key is known to have been taken in; counted as a duplicate. Never, where
        the frontier is to hear of every link."""
        if self._tells_all or not self.frontier.seen(host, key):
            return False
        self._delivery.seen_locally += 1
        return True

    def count_seen(self, links: int) -> None:
        """Links that were recognised from the memo."""
        self._delivery.seen_locally += links

    def push(self, item: Push) -> None:
        """Collect a URL for the frontier, once."""
        once = item.kind == Kind.LINK and not self._tells_all
        if not self._delivery.add(item, once=once):
            self._delivery.seen_locally += 1
        self._flush_wake.set()

    @property
    def now(self) -> int:
        """The moment, as `end` is told when a request began."""
        return self._delivery.now

    def end(self, ended: Any, since: int = 0) -> None:
        """Collect a request that was begun at that moment and has ended."""
        self._delivery.end(ended, since)
        self._flush_wake.set()

    @property
    def scope(self) -> set[str]:
        """Hosts or domains that seeds brought into scope."""
        return self._delivery.scope

    @property
    def backlog(self) -> int:
        """URLs collected and not yet in the frontier."""
        return self._delivery.waiting_links

    @property
    def links_without_room(self) -> int:
        """How many of them wait because Redis is short of memory."""
        return self._delivery.links_without_room

    @property
    def is_idle(self) -> bool:
        """True if nothing is in hand, in progress or on its way."""
        return not (self._hand.waiting or self.held or self._delivery.owes)

    @property
    def is_stuck(self) -> bool:
        """True if all that is left here are links without room, and the pages that led to them."""
        in_progress = self.held - self._delivery.ended_pages
        return bool(self.links_without_room) and not self._hand.waiting and not in_progress

    async def flush(self, *, in_any_case: bool = False) -> None:
        """Push what was found and write what was scraped; then settle what has ended."""
        async with self._flushing:
            is_last = not self._hand.waiting and self.held <= self._delivery.ended_pages
            settled = await self._delivery.run(is_last=is_last, in_any_case=in_any_case)
            if settled:
                self.held -= len(settled)
                self.tally.add(settled)
                self._hand.settled(settled)
                await self._heed_holds()
                self.supply.released(time.monotonic() + self.frontier.limits.delay_ms / 1000)
        self._ask_again()

    async def give_back(self) -> None:
        """Return what was leased and not begun."""
        if leases := self._hand.empty():
            verdicts = [(one.shard, Settlement(one.token, "return")) for one in leases]
            await self._retry_until_available(partial(self.frontier.settle, verdicts))
            self._hand.settled(verdicts)

    async def push_now(self, pushes: list[Push]) -> None:
        """Push seeds and return when the frontier has them; raises CrawlFinished if it will not
        take them any more, OutOfMemoryError if Redis has no room."""
        async with self._flushing:
            await self._delivery.push_now(pushes)
        self._lease_wake.set()

    def go_on(self) -> None:
        """What waits here goes on with the crawl, also if others have ended it."""
        self._delivery.goes_on = True

    async def close(self) -> None:
        """Stop the loops, hand in everything, say goodbye; give up if Redis or the disk stays
        away: then others take over what this worker held."""
        try:
            async with asyncio.timeout(self.lease_timeout_s):
                async with self._flushing:
                    await self._loops.end()
                await self._hand_in()
        except TimeoutError:
            await self._loops.end()
            logger.error("Not all could be handed in; other workers will take over what is left")
        finally:
            self._delivery.close()

    async def _hand_in(self) -> None:
        await self.give_back()
        await self.flush(in_any_case=True)
        # What a lease call had been granted when it was cut short, and what found no room for
        # its links.
        self._hand.waiting.extend(await self._retry_until_available(self.frontier.held))
        await self.give_back()
        await self._retry_until_available(self.frontier.leave)

    # The loops

    async def _lease_loop(self) -> None:
        pause_s = 0.02
        while True:
            depth = self.supply.depth
            wanted = depth - len(self._hand.waiting)
            if self._delivery.is_full and self._delivery.pressure.is_tight:
                await self.give_back()  # others may have room for what they lead to
                await woken(self._lease_wake, POLL_S)
                continue
            if wanted < max(1, depth // 2) or not self.is_sure or self._outages.is_behind:
                await woken(self._lease_wake, POLL_S)
                await self._heed_holds()
                await self._retry_until_available(self._ask_state)
                continue
            batch = await self._retry_until_available(partial(self._lease, wanted))
            await self._heed_holds()
            got = len(batch.leases)
            now = time.monotonic(), time.process_time()
            self.supply.leased(got, wanted, batch.next_due_ms, *now)
            await self._retry_until_available(partial(self._welcome, batch))
            pause_s = 0.02 if batch.leases else min(POLL_S, pause_s * 2)
            if len(batch.leases) < wanted:
                due_s = batch.next_due_ms / 1000 if batch.next_due_ms >= 0 else POLL_S
                await asyncio.sleep(self._coalesce_s)
                rest_s = min(due_s, pause_s) - self._coalesce_s
                await woken(self._lease_wake, max(rest_s, 0.001))

    async def _flush_loop(self) -> None:
        while True:
            if self.links_without_room:
                await woken(self._flush_wake, LOOK_EVERY_S)
            else:
                await self._flush_wake.wait()
            await asyncio.sleep(COALESCE_S if self._hand.waiting else self._coalesce_s)
            self._flush_wake.clear()
            await self.flush()
            self._lease_wake.set()

    async def _beat_loop(self) -> None:
        while True:
            await asyncio.sleep(self.lease_timeout_s / 4)
            await self._retry_until_available(self._beat)
            while await self._sweep():
                self._lease_wake.set()

    # The exchanges

    async def _sweep(self) -> int:
        """Take back what dead workers held; returns how many of them there were."""
        reclaimed = await self._retry_until_available(self.frontier.reclaim)
        if reclaimed.workers:
            logger.warning(
                "%s fell silent; %d of their URLs are queued again",
                counted(reclaimed.workers, "worker"),
                reclaimed.queued,
            )
            await self.surroundings.report_lost(reclaimed.dead)
        return reclaimed.workers

    async def _lease(self, wanted: int) -> Batch:
        no_links = self.surroundings.awaits_seeds()
        try:
            batch = await self.frontier.lease(wanted, no_links=no_links)
        except WorkerDeclaredDead as error:
            logger.warning("%s", error)
            await self._beat()
            batch = await self.frontier.lease(wanted, no_links=no_links)
        if self.frontier.is_stale:
            logger.warning("Another server keeps the frontier now: learning anew what it has")
            await self._learn_anew()
        self._delivery.seeds.confirm()
        if batch.scope_size > self._scope.size:
            await self._scope.learn_new()
        await self._adopt(batch.leases)
        failpoints.reached("leased")
        return batch

    async def _welcome(self, batch: Batch) -> None:
        self._hear(batch.state)
        if batch.state != "running" or not batch.leases:
            await self.surroundings.obey(batch.state)

    async def _ask_state(self) -> None:
        """What a lease would tell, for a worker that has enough in hand to lease nothing."""
        if time.monotonic() - self._told_at < STATE_EVERY_S:
            return
        state = await self.frontier.state()
        self._told_at = time.monotonic()
        if state != "running" or self.state not in BEGINS:
            self._hear(state)
            await self.surroundings.obey(state)

    def _hear(self, state: State) -> None:
        self._told_at = time.monotonic()
        self.state = state
        self._ask_again()

    async def _heed_holds(self) -> None:
        self.surroundings.heed_holds(
            await self._retry_until_available(lambda: self.frontier.new_holds(self._hand.waiting))
        )

    async def _beat(self) -> None:
        """One at a time: who was declared dead is sure of nothing until it has been told what is
        still its own, and a second heartbeat would not tell it that it had been dead."""
        async with self._beating:
            asked_at = clock_s()
            known, timeout_ms = len(self._hand.names), int(self.lease_timeout_s * 1000)
            renewed = await self.frontier.renew(timeout_ms, self.surroundings.about())
            # What a lease call brings is counted before its reply is here: once is no surplus.
            has_surplus, had_surplus = renewed.leases > known, self._has_surplus
            self._has_surplus = has_surplus and not had_surplus
            if not renewed.known or (has_surplus and had_surplus):
                await self._recollect()
            self._certainty.renewed_at = asked_at
        self._ask_again()

    async def _come_back(self) -> None:
        """After an outage: the heartbeat shows that Redis can be written to, which a master that
        has become a replica cannot."""
        await self._beat()
        await self._learn_anew()

    async def _learn_anew(self) -> None:
        """Begin again from what Redis says: what has been seen, and what this worker holds."""
        self.memo.clear()
        await self.frontier.warm()
        await self._scope.learn_anew()
        await self._recollect()
        if self.frontier.servers != self._served_by:  # since this was last learnt to the end
            self._served_by = self.frontier.servers
            for seed in self._delivery.seeds.take_back():
                self.push(seed)

    async def _recollect(self) -> None:
        """Have in hand what Redis says is this worker's: others may have taken over some of it,
        and of some the worker may not have heard."""
        before = set(self._hand.names)
        held = {(one.shard, one.token): one for one in await self.frontier.held()}
        await self._adopt([one for name, one in held.items() if name not in before])
        if lost := self._hand.lose(before - held.keys()):
            what = f"{counted(lost, 'URL')} {plural(lost, 'is')}"
            logger.warning("%s no longer this worker's: others have them", what)

    async def _adopt(self, leases: list[Lease]) -> None:
        """Put leases into the buffer that are not in hand yet: a reply may have been lost."""
        await self.surroundings.prepare(leases)
        if self._hand.adopt(leases):
            self.surroundings.wake()
