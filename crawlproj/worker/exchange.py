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
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
from crawlproj.worker.delivery import Delivery
from crawlproj.worker.outages import Outages
from crawlproj.worker.prefetch import Supply
from crawlproj.worker.pulse import Tally
from crawlproj.worker.surroundings import Surroundings

logger = logging.getLogger(__name__)

POLL_S = 0.5
"""How long a worker with nothing to do sleeps at most: what other workers push shows then."""

SURE = 0.75
"""Share of the lease timeout after which a worker without heartbeat stops: what it had sent is over
when others begin, also for the server, which may go on with a request that was broken off."""

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
        self._buffer: deque[Lease] = deque()
        self.memo = Memo()
        self.tally = Tally()
        self._outages = Outages(frontier.reconnect, self._come_back)
        self._insist = self._outages.insist
        self._delivery = Delivery(
            frontier, surroundings, self._insist, backlog=backlog, watermark=watermark
        )
        self._known: set[tuple[int, int]] = set()
        self._scope_read = 0
        self._renewed_at = clock_s()
        self._told_at = time.monotonic()
        self._has_surplus = self._was_refused = False
        self._served_by: list[bytes | None] = []
        # A host then rests about 3 % longer than it must, and Redis is asked far less often.
        self._coalesce_s = min(COALESCE_S, frontier.limits.delay_ms / 16_000)
        self._lease_wake = asyncio.Event()
        self._flush_wake = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._beating = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    # What the scheduler calls

    async def start(self) -> None:
        """Register, learn what has been seen, begin to lease."""
        while await self._sweep():
            pass
        await self._insist(self._beat)
        await self._insist(self.frontier.warm)
        self._served_by = self.frontier.servers
        loops = (self._lease_loop, self._flush_loop, self._beat_loop, self._deadline_loop)
        self._tasks = [asyncio.create_task(self._guarded(loop)) for loop in loops]

    def take(self) -> Lease | None:
        """The next URL to fetch, if one is at hand and it is still certain that it is ours."""
        if not self._buffer:
            self.supply.missed(time.monotonic(), time.process_time())
            return None
        if not self._may_begin:
            self._was_refused = True
            return None
        if len(self._buffer) <= self.supply.depth // 2:
            self._lease_wake.set()
        self.held += 1
        return self._buffer.popleft()

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
        return self._sure_for_s > 0

    @property
    def _sure_for_s(self) -> float:
        return self._renewed_at + SURE * self.lease_timeout_s - clock_s()

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
        return not (self._buffer or self.held or self._delivery.owes)

    @property
    def is_stuck(self) -> bool:
        """True if all that is left here are links without room, and the pages that led to them."""
        in_progress = self.held - self._delivery.ended_pages
        return bool(self.links_without_room) and not self._buffer and not in_progress

    async def flush(self, *, in_any_case: bool = False) -> None:
        """Push what was found and write what was scraped; then settle what has ended."""
        async with self._flushing:
            is_last = not self._buffer and self.held <= self._delivery.ended_pages
            settled = await self._delivery.run(is_last=is_last, in_any_case=in_any_case)
            if settled:
                self.held -= len(settled)
                self.tally.add(settled)
                self._let_go(settled)
                await self._heed_holds()
                self.supply.released(time.monotonic() + self.frontier.limits.delay_ms / 1000)
        self._ask_again()

    async def give_back(self) -> None:
        """Return what was leased and not begun."""
        leases, self._buffer = list(self._buffer), deque()
        if leases:
            verdicts = [(one.shard, Settlement(one.token, "return")) for one in leases]
            await self._insist(partial(self.frontier.settle, verdicts))
            self._let_go(verdicts)

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
                    await self._end_loops()
                await self._hand_in()
        except TimeoutError:
            await self._end_loops()
            logger.error("Not all could be handed in; other workers will take over what is left")
        finally:
            self._delivery.close()

    async def _end_loops(self) -> None:
        """Cancel until they are gone: a cancellation that meets a reply just then can be lost."""
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.2)

    async def _hand_in(self) -> None:
        await self.give_back()
        await self.flush(in_any_case=True)
        # What a lease call had been granted when it was cut short, and what found no room for
        # its links.
        self._buffer.extend(await self._insist(self.frontier.held))
        await self.give_back()
        await self._insist(self.frontier.leave)

    # The loops

    async def _lease_loop(self) -> None:
        pause_s = 0.02
        while True:
            depth = self.supply.depth
            wanted = depth - len(self._buffer)
            if self._delivery.is_full and self._delivery.pressure.is_tight:
                await self.give_back()  # others may have room for what they lead to
                await self._sleep(self._lease_wake, POLL_S)
                continue
            if wanted < max(1, depth // 2) or not self.is_sure or self._outages.is_behind:
                await self._sleep(self._lease_wake, POLL_S)
                await self._heed_holds()
                await self._insist(self._ask_state)
                continue
            batch = await self._insist(partial(self._lease, wanted))
            got = len(batch.leases)
            now = time.monotonic(), time.process_time()
            self.supply.leased(got, wanted, batch.next_due_ms, *now)
            await self._insist(partial(self._welcome, batch))
            pause_s = 0.02 if batch.leases else min(POLL_S, pause_s * 2)
            if len(batch.leases) < wanted:
                due_s = batch.next_due_ms / 1000 if batch.next_due_ms >= 0 else POLL_S
                await asyncio.sleep(self._coalesce_s)
                rest_s = min(due_s, pause_s) - self._coalesce_s
                await self._sleep(self._lease_wake, max(rest_s, 0.001))

    async def _flush_loop(self) -> None:
        while True:
            if self.links_without_room:
                await self._sleep(self._flush_wake, LOOK_EVERY_S)
            else:
                await self._flush_wake.wait()
            await asyncio.sleep(COALESCE_S if self._buffer else self._coalesce_s)
            self._flush_wake.clear()
            await self.flush()
            self._lease_wake.set()

    async def _beat_loop(self) -> None:
        while True:
            await asyncio.sleep(self.lease_timeout_s / 4)
            await self._insist(self._beat)
            while await self._sweep():
                self._lease_wake.set()

    async def _deadline_loop(self) -> None:
        """Ends what is under way before others may begin with it."""
        while True:
            while (left_s := self._sure_for_s) > 0:
                await asyncio.sleep(left_s)
            self.surroundings.break_off()
            while not self.is_sure:
                await asyncio.sleep(POLL_S)

    async def _guarded(self, loop: Callable[[], Awaitable[None]]) -> None:
        try:
            await loop()
        except Exception as error:
            self.surroundings.give_up(error)

    # The exchanges

    async def _sweep(self) -> int:
        """Take back what dead workers held; returns how many of them there were."""
        reclaimed = await self._insist(self.frontier.reclaim)
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
        if batch.scope_size > self._scope_read:
            await self._learn_new_scope()
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

    def _let_go(self, verdicts: list[tuple[int, Settlement]]) -> None:
        self._known.difference_update((shard, one.token) for shard, one in verdicts)

    async def _heed_holds(self) -> None:
        self.surroundings.heed_holds(
            await self._insist(lambda: self.frontier.new_holds(self._buffer))
        )

    async def _beat(self) -> None:
        """One at a time: who was declared dead is sure of nothing until it has been told what is
        still its own, and a second heartbeat would not tell it that it had been dead."""
        async with self._beating:
            asked_at = clock_s()
            known, timeout_ms = len(self._known), int(self.lease_timeout_s * 1000)
            renewed = await self.frontier.renew(timeout_ms, self.surroundings.about())
            # What a lease call brings is counted before its reply is here: once is no surplus.
            has_surplus, had_surplus = renewed.leases > known, self._has_surplus
            self._has_surplus = has_surplus and not had_surplus
            if not renewed.known or (has_surplus and had_surplus):
                await self._recollect()
            self._renewed_at = asked_at
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
        await self._learn_scope_anew()
        await self._recollect()
        if self.frontier.servers != self._served_by:  # since this was last learnt to the end
            self._served_by = self.frontier.servers
            for seed in self._delivery.seeds.take_back():
                self.push(seed)

    async def _learn_new_scope(self) -> None:
        position = self._scope_read
        new = await self.frontier.scope_since(position)
        self.scope.update(new)
        if self._scope_read == position:  # else it was learnt anew meanwhile
            self._scope_read += len(new)

    async def _learn_scope_anew(self) -> None:
        names = await self.frontier.scope_since(0)
        self._scope_read = len(names)
        self.scope.intersection_update(names)
        self.scope.update(names)

    async def _recollect(self) -> None:
        """Have in hand what Redis says is this worker's: others may have taken over some of it,
        and of some the worker may not have heard."""
        before = set(self._known)
        held = {(one.shard, one.token): one for one in await self.frontier.held()}
        await self._adopt([one for name, one in held.items() if name not in before])
        gone = before - held.keys()
        lost = [one for one in self._buffer if (one.shard, one.token) in gone]
        if lost:
            what = f"{counted(len(lost), 'URL')} {plural(len(lost), 'is')}"
            logger.warning("%s no longer this worker's: others have them", what)
            self._buffer = deque(one for one in self._buffer if one not in lost)
            self._known.difference_update((one.shard, one.token) for one in lost)

    async def _adopt(self, leases: list[Lease]) -> None:
        """Put leases into the buffer that are not in hand yet: a reply may have been lost."""
        await self.surroundings.prepare(leases)
        new = [one for one in leases if (one.shard, one.token) not in self._known]
        self._known.update((one.shard, one.token) for one in new)
        self._buffer.extend(new)
        if new:
            self.surroundings.wake()

    @staticmethod
    async def _sleep(event: asyncio.Event, most_s: float) -> None:
        # Not wait_for(): it can swallow the cancellation by which a loop ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await event.wait()
        event.clear()
