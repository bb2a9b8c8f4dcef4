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

from crawlproj.discover.known_links import KnownLinks
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import Batch, Kind, Lease, Push, Settlement, State
from crawlproj.frontier.outcomes import Attempt
from crawlproj.frontier.refusals import WorkerDeclaredDead
from crawlproj.running import Tally
from crawlproj.server.memory import LOOK_EVERY_S
from crawlproj.worker.delivery import MOST_WAITING, WATERMARK, Delivery
from crawlproj.worker.heartbeat import BEATS_A_TIMEOUT, Heartbeat
from crawlproj.worker.hooks import Hooks
from crawlproj.worker.known_scope import KnownScope
from crawlproj.worker.lease_buffer import LeaseBuffer
from crawlproj.worker.loops import Loops, before_lease_s, before_settling_s, wait_until_set
from crawlproj.worker.outages import Outages
from crawlproj.worker.reclaiming import Reclaiming

logger = logging.getLogger(__name__)

POLL_S = 0.5
"""How long a worker with nothing to do sleeps at most: what other workers push shows then."""

STATE_EVERY_S = 1.0
"""How often a worker that leases nothing asks whether the crawl is to go on."""

BEGINS = ("running", "limit")
"""States in which what is in hand is begun."""

SHORTEST_PAUSE_S = 0.02
"""Between two leases that brought less than was asked for; it doubles while they bring nothing."""


class Worker:
    """Buffers and loops; `take`, `push` and `end` never wait."""

    def __init__(
        self,
        frontier: Frontier,
        hooks: Hooks,
        *,
        connections: int,
        lease_timeout_s: float,
        pushes_every_link: bool = False,
        most_waiting: int = MOST_WAITING,
        watermark: float = WATERMARK,
    ) -> None:
        self.frontier = frontier
        self.hooks = hooks
        self.lease_timeout_s = lease_timeout_s
        self._pushes_every_link = pushes_every_link
        self.state: State = "running"
        self.begun = 0
        self._connections = connections
        self._buffer = LeaseBuffer(frontier, hooks, connections)
        self.prefetch = self._buffer.prefetch
        self.known_links = KnownLinks()
        self.tally = Tally()
        self._outages = Outages(frontier.reconnect, self._come_back)
        self._retry_until_available = self._outages.retry_until_available
        self._delivery = Delivery(
            frontier,
            hooks,
            self._retry_until_available,
            most_waiting=most_waiting,
            watermark=watermark,
        )
        self.count_if_waiting = self._delivery.count_if_waiting
        self.count_seen = self._delivery.count_seen
        self._reclaiming = Reclaiming(frontier, hooks, self._retry_until_available)
        self._scope = KnownScope(frontier, self._delivery.scope)
        self._heartbeat = Heartbeat(frontier, hooks, self._buffer, lease_timeout_s)
        self._state_read_at = time.monotonic()
        self._was_refused = False
        self._served_by: list[bytes | None] = []
        self._lease_wake = asyncio.Event()
        self._flush_wake = asyncio.Event()
        if hooks.store is not None:
            hooks.store.on_commit = self._flush_wake.set
            hooks.store.on_error = hooks.give_up
        self._flushing = asyncio.Lock()
        self._loops = Loops(hooks.give_up)

    # What the other parts of the crawl call

    async def start(self) -> None:
        """Register, learn what has been seen, begin to lease."""
        await self._retry_until_available(self.beat)
        await self._reclaiming.bury()
        await self._retry_until_available(self.frontier.warm)
        self._served_by = self.frontier.servers
        self._loops.start(
            self._lease_loop, self._flush_loop, self._beat_loop, self._heartbeat.watch
        )

    def take(self) -> Lease | None:
        """The next URL to fetch, if one is at hand and it is still certain that it is ours."""
        if not self._buffer.waiting:
            self.prefetch.missed(time.monotonic(), time.process_time())
            return None
        if not self._may_begin:
            self._was_refused = True
            return None
        if len(self._buffer.waiting) <= self.prefetch.depth // 2:
            self._lease_wake.set()
        self.begun += 1
        return self._buffer.waiting.popleft()

    @property
    def _may_begin(self) -> bool:
        return self.has_valid_leases and not self._delivery.is_full and self.state in BEGINS

    def _ask_again(self) -> None:
        """Wake an engine that was given nothing, once it may have what is leased: by itself it
        would look again seconds later."""
        if self._was_refused and self._may_begin:
            self._was_refused = False
            self.hooks.wake()

    @property
    def has_valid_leases(self) -> bool:
        """False once others may soon count this worker as dead: it must not fetch any more."""
        return self._heartbeat.left_s > 0

    def count_if_seen(self, host: str, key: str) -> bool:
        """True if the key is known to have been taken in, which counts it as a duplicate. Never,
        where the frontier is to count every link."""
        if self._pushes_every_link or not self.frontier.seen(host, key):
            return False
        self.count_seen(1)
        return True

    def push(self, item: Push) -> None:
        """Collect a URL for the frontier, once."""
        once = item.kind == Kind.LINK and not self._pushes_every_link
        self._delivery.add(item, once=once)
        self._flush_wake.set()

    @property
    def links_found(self) -> int:
        """How many were found so far, as a request notes it when it begins (outbox.py)."""
        return self._delivery.links_found

    def end(self, attempt: Attempt) -> None:
        """Collect a request that has ended."""
        self._delivery.end(attempt)
        self._flush_wake.set()

    @property
    def scope(self) -> set[str]:
        """Hosts or domains that seeds brought into scope."""
        return self._delivery.scope

    @property
    def leased_ahead(self) -> int:
        """URLs at hand that were not begun."""
        return len(self._buffer.waiting)

    @property
    def leases(self) -> int:
        """All that it has: at hand, or begun and not settled."""
        return len(self._buffer.names)

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
        return not (self._buffer.waiting or self.begun or self._delivery.owes)

    @property
    def is_stuck(self) -> bool:
        """True if only links without room are left here, and the pages that led to them."""
        return self._is_last and self.links_without_room > 0

    @property
    def _is_last(self) -> bool:
        """True if nothing is at hand or in progress: only what has ended is on its way."""
        return not self._buffer.waiting and self._in_progress <= 0

    @property
    def _in_progress(self) -> int:
        return self.begun - self._delivery.ended_pages

    @property
    def _idle_connections(self) -> int:
        """How many requests it could begin at once."""
        return max(0, self._connections - self._in_progress) if self._may_begin else 0

    async def flush(self, *, in_any_case: bool = False) -> None:
        """Push what was found and write what was scraped; then settle what has ended."""
        async with self._flushing:
            settled = await self._delivery.run(is_last=self._is_last, in_any_case=in_any_case)
            if settled.ended:
                self.begun -= len(settled.ended)
                self.tally.add(settled.accepted)
                self._buffer.settled(settled.ended)
                await self._update_holds()
                self.prefetch.released(time.monotonic() + self.frontier.plan.delay_s)
        self._ask_again()

    async def give_back(self, but: int = 0, shards: tuple[int, ...] | None = None) -> None:
        """Return what was leased and not begun, but for the first ones; of all shards, or some."""
        if leases := self._buffer.take_out(but, shards):
            returned = [(one.shard, Settlement(one.token, "return")) for one in leases]
            await self._retry_until_available(self.frontier.settling(returned))
            self._buffer.settled(returned)

    async def push_now(self, pushes: list[Push]) -> None:
        """Push seeds and return when the frontier has them; raises CrawlFinished if it will not
        take them any more, OutOfMemoryError if Redis has no room."""
        async with self._flushing:
            await self._delivery.push_now(pushes)
        self._lease_wake.set()

    def reopen_if_finished(self) -> None:
        """What waits here opens the crawl again, if others have ended it."""
        self._delivery.reopens_crawl = True

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
        while self._delivery.awaits_commit:
            self._delivery.commit_now()
            await wait_until_set(self._flush_wake, POLL_S)
            await self.flush(in_any_case=True)
        # Leases whose reply never came because the call was cut short, and pages that found no room
        # for their links.
        self._buffer.waiting.extend(await self._retry_until_available(self.frontier.held_leases))
        await self.give_back()
        await self._reclaiming.acknowledge()
        await self._retry_until_available(self.frontier.leave)

    # The loops

    async def _lease_loop(self) -> None:
        pause_s = SHORTEST_PAUSE_S
        while True:
            depth = self.prefetch.depth
            wanted = depth - len(self._buffer.waiting)
            is_tight = self._delivery.is_full and self._delivery.pressure.is_tight
            if is_tight or self.hooks.is_ending():
                await self.give_back()  # others may have room for what they lead to, or time
                await wait_until_set(self._lease_wake, POLL_S)
                continue
            if wanted < max(1, depth // 2) or not self.has_valid_leases or self._outages.is_behind:
                await wait_until_set(self._lease_wake, POLL_S)
                await self._update_holds()
                await self._retry_until_available(self._ask_state)
                continue
            batch = await self._retry_until_available(partial(self.lease, wanted))
            await self._update_holds()
            now_s, busy_s = time.monotonic(), time.process_time()
            self.prefetch.leased(len(batch.leases), wanted, batch.next_due_ms, now_s, busy_s)
            await self._retry_until_available(partial(self._accept, batch))
            pause_s = SHORTEST_PAUSE_S if batch.leases else min(POLL_S, pause_s * 2)
            if len(batch.leases) < wanted:
                due_s = POLL_S if batch.next_due_ms is None else batch.next_due_ms / 1000
                collect_s = before_lease_s(self.frontier.plan.delay_s)
                await asyncio.sleep(collect_s)
                rest_s = min(due_s, pause_s) - collect_s
                await wait_until_set(self._lease_wake, max(rest_s, 0.001))

    async def _flush_loop(self) -> None:
        while True:
            if self.links_without_room:
                await wait_until_set(self._flush_wake, LOOK_EVERY_S)
            elif self._delivery.awaits_commit:
                if not await wait_until_set(self._flush_wake, POLL_S) and self._is_last:
                    self._delivery.commit_now()
            else:
                await self._flush_wake.wait()
            delay_s, has_more = self.frontier.plan.delay_s, bool(self._buffer.waiting)
            await asyncio.sleep(before_settling_s(delay_s, has_more=has_more))
            self._flush_wake.clear()
            await self.flush()
            self._lease_wake.set()

    async def _beat_loop(self) -> None:
        while True:
            await asyncio.sleep(self.lease_timeout_s / BEATS_A_TIMEOUT)
            await self._retry_until_available(self.beat)
            if await self._reclaiming.bury():
                self._lease_wake.set()

    # The exchanges

    async def lease(self, wanted: int) -> Batch:
        """Have so many more URLs at hand, if there are."""
        begins = min(wanted, max(0, self._idle_connections - self.leased_ahead))
        lease = partial(self.frontier.lease, no_links=self.hooks.awaits_seeds())
        try:
            batch = await lease(wanted, begins=begins)
        except WorkerDeclaredDead as error:
            logger.warning("%s", error)
            await self.beat()
            batch = await lease(wanted, begins=begins)
        if self.frontier.is_stale:
            logger.warning("Another server keeps the frontier now: learning anew what it has")
            await self._learn_anew()
        self._delivery.seeds.confirm()
        if batch.scope_size > self._scope.size:
            await self._scope.learn_new()
        await self._buffer.adopt(batch.leases)
        if batch.short_at:
            await self.give_back(but=self._idle_connections, shards=batch.short_at)
        return batch

    async def _accept(self, batch: Batch) -> None:
        self._note_state(batch.state)
        if batch.state != "running" or not batch.leases:
            await self.hooks.obey(batch.state)

    async def _ask_state(self) -> None:
        """Hear how the crawl is, and whether others need what waits here, without a lease."""
        if time.monotonic() - self._state_read_at < STATE_EVERY_S:
            return
        has_ahead = self.leased_ahead > self._idle_connections and self.has_valid_leases
        state = (await self.lease(0)).state if has_ahead else await self.frontier.state()
        self._state_read_at = time.monotonic()
        if state != "running" or self.state not in BEGINS:
            self._note_state(state)
            await self.hooks.obey(state)

    def _note_state(self, state: State) -> None:
        self._state_read_at = time.monotonic()
        self.state = state
        self._ask_again()

    async def _update_holds(self) -> None:
        new_holds = partial(self.frontier.new_holds, self._buffer.waiting)
        self.hooks.update_holds(await self._retry_until_available(new_holds))

    async def beat(self) -> None:
        """Tell the frontier that this worker lives, and hear what is still its own."""
        await self._heartbeat.beat()
        self._ask_again()

    async def _come_back(self) -> None:
        """After an outage: the heartbeat shows that Redis can be written to, which a master that
        has become a replica cannot."""
        await self.beat()
        await self._learn_anew()

    async def _learn_anew(self) -> None:
        """Begin again from what Redis says: what has been seen, and what this worker holds."""
        self.known_links.clear()
        await self.frontier.warm()
        await self._scope.learn_anew()
        self.known_links.clear()  # again: pages were read meanwhile
        await self._buffer.sync()
        if self.frontier.servers != self._served_by:  # since this was last learnt to the end
            self._served_by = self.frontier.servers
            for seed in self._delivery.seeds.take_back():
                self.push(seed)
