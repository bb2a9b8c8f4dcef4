"""One shard of the frontier: what a worker knows of it, and a typed method for most of its scripts.

The other scripts are called by the module named after what they do (settling.py, burying.py,
scope.py, …). Callers of either never see keys or arguments. A shard knows the crawl's epoch from
`open()` on and works in no other.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from crawlproj.config import Config
from crawlproj.frontier import keys
from crawlproj.frontier.bloom import Geometry, Offsets, Replica
from crawlproj.frontier.hosts import with_host
from crawlproj.frontier.lease_reading import read_held, read_new
from crawlproj.frontier.messages import (
    WITH_SEED,
    Arrival,
    Batch,
    DeadLetter,
    Kind,
    Lease,
    Opened,
    Push,
    Renewed,
    State,
)
from crawlproj.frontier.readings import layer_count, read_counts, read_layers, refusing_damage
from crawlproj.frontier.script_calls import ScriptCalls
from crawlproj.frontier.seen_updates import SeenUpdates
from crawlproj.frontier.warming import Warming
from crawlproj.frontier.wire import pack, unpack, unpack_all

PACE = "pace:"
"""How fields of META begin that change the pace of a host (lua/change_pace.lua)."""

CLEARED_AT_ONCE = 500
"""Hosts of an earlier crawl that one call clears away."""


@dataclass
class Shard(ScriptCalls):
    """The scripts of one shard, bound to a client and, once opened, to an epoch.

    `is_stale` says that the shard is on another server now than the one that the replica copies.
    `holds` counts the holds of hosts of which more was leased, as the last reply said;
    `holds_applied` is how many of them this worker has looked at.
    """

    geometry: Geometry
    audit_one_in: int = Config.seen_audit_one_in
    replica: Replica = field(init=False)
    pushes: int | None = None
    tokens: int = 0
    server: bytes | None = None
    is_stale: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._unanswered: tuple[int, Sequence[Push]] | None = None
        self.replica = Replica(self.geometry)
        self._updates = SeenUpdates()
        self.holds = self.holds_applied = 0
        self.cookie_changes = 0
        self.outrun: dict[int, int] = {}
        """Of URLs that this worker has settled and another held too: its token, the other's."""
        self.holds_read_at_s = float("-inf")
        self._settlements = secrets.randbits(40)  # no process of this name has come near

    async def open(
        self,
        new_epoch: str,
        *,
        follow: str,
        run: str,
        fields: dict[str, Any],
        lasts_ms: int,
        arrival: Arrival = WITH_SEED,
    ) -> Opened:
        """Begin, join or resume the crawl; `follow` names the epoch that another shard is in."""
        waited_since = "" if arrival.dismissals is None else arrival.dismissals
        args = [new_epoch, follow, run, pack(fields), lasts_ms]
        args += [int(arrival.brings_seed), arrival.seed_found_at, waited_since]
        mode, epoch, state, plan = await self.run("open", args)
        while mode == b"leftovers":
            await self.clear(epoch, int(plan))
            mode, epoch, state, plan = await self.run("open", args)
        self.epoch = epoch.decode()
        with refusing_damage("plan"):
            return Opened(mode.decode(), self.epoch, state.decode(), (plan or b"").decode())

    async def clear(self, epoch: bytes, what: int) -> None:
        """Make room for another crawl, in pieces that block nobody for long."""
        cursor: Any = 0
        while what:
            what, cursor = await self.run("clear", [epoch, what, cursor, CLEARED_AT_ONCE])

    async def push(self, worker: str, batch: Sequence[Push], seen_locally: int = 0) -> list[bool]:
        """Queue what is new; tells which were. Repeated with the same batch after its reply was
        lost, it changes nothing."""
        number, server = await self._number(worker, batch), self.server or b""
        while True:
            layers = list(self.replica.layers)
            offsets = [self._offsets(item) for item in batch]
            args = [worker, number, len(layers), layers[-1].capacity]
            args += [pack(self._push_fields(batch, offsets)), seen_locally]
            slices = " ".join(str(layer.num_slices) for layer in layers)
            args += [slices, _host_fields(batch), self._updates.unsent, self._updates.server]
            open_layers, *reply = await self.call("push", args)
            await self._grow_replica(open_layers)
            if reply:
                break
        self.pushes, self._unanswered = number, None
        found = unpack(reply[0])
        self._updates.note(server, len(layers) - 1, self._learn(len(layers), offsets, found))
        return [layer == 0 for layer in found] or [False] * len(batch)

    def _push_fields(self, batch: Sequence[Push], offsets: Sequence[Offsets]) -> list[Any]:
        """What lua/push.lua reads of each URL, one after the other: a table for each would cost
        it more than the URL itself. The key goes along only where it is kept."""
        packers = [Struct(f">{layer.num_slices}I").pack for layer in self.replica.layers]
        fields: list[Any] = []
        for item, bits in zip(batch, offsets, strict=True):
            packed = b"".join([put(*one) for put, one in zip(packers, bits, strict=False)])
            sampled = int(bool(bits) and bits[0][0] % self.audit_one_in == 0)
            key = item.key if sampled or item.kind == Kind.SEED else ""
            fields += (item.kind, item.host, item.level, item.entry, packed, key, sampled)
        return fields

    async def _number(self, worker: str, batch: Sequence[Push]) -> int:
        """A push that is tried again keeps its number. No other gets it, even if the push was
        given up: Redis may have carried it out, and would take the other for its repetition."""
        if self.pushes is None:
            found = await self.client.hget(keys.meta(self.crawl, self.number), f"push:{worker}")
            self.pushes = int(found or 0)
        number, tried = self._unanswered or (self.pushes, None)
        if tried is not batch:
            number += 1
            self._unanswered = number, batch
        return number

    async def _grow_replica(self, count: int) -> None:
        if count < len(self.replica.layers):
            await self.warm()  # the server has lost some: it was restarted, or failed over
        self.replica.grow(layer_count(count))

    def _learn(self, layers: int, offsets: list[Offsets], found: list[int]) -> list[int]:
        """Copy to the replica what the push has set in the last layer of the filter, or found set
        there; returns the former. The reply to a repeated push says neither."""
        new: list[int] = []
        for bits, layer in zip(offsets, found, strict=False):
            if bits and layer > 0:
                self.replica.add(layer - 1, bits[layer - 1])
            elif bits and layer == 0:
                new += bits[-1]
        self.replica.add(layers - 1, new)
        return new

    async def lease(
        self,
        worker: str,
        wanted: int,
        *,
        begins: int | None = None,
        left_ms: int = 0,
        no_links: bool = False,
        has_others: bool = False,
    ) -> Batch:
        """Take up to so many URLs of hosts that are due; of these `begins` are begun at once, if
        not all. A host is left for `left_ms` to who has asked it last; `has_others` says that this
        is not the only shard."""
        args = [worker, wanted, self.tokens, self._updates.last_id, int(no_links), int(has_others)]
        args += [wanted if begins is None else begins, left_ms]
        reply = await self.call("lease", args)
        state, next_ms, scope, packed, server, last_id, updates, holds, spare, *others = reply
        self.cookie_changes, others_are_short = others
        self.is_stale = self.is_stale or self.server not in (None, server)
        self._updates.apply(updates, last_id, self.replica)
        self.note_holds(holds)
        leases = read_new(self.number, packed)
        self.tokens = max([self.tokens, *(lease.token for lease in leases)])
        next_due_ms = None if next_ms < 0 else next_ms
        short_at = (self.number,) if others_are_short else ()
        spare_pages = None if spare == b"" else spare
        return Batch(state.decode(), next_due_ms, scope, leases, spare_pages, short_at)

    async def held_leases(self, worker: str) -> list[Lease]:
        """All that a worker holds here: what it asks after a reply to `lease` was lost."""
        found = await self.client.hgetall(keys.leased_prefix(self.crawl, self.number) + worker)
        leases = list(read_held(self.number, found))
        names, key = [lease.host for lease in leases], keys.hosts(self.crawl, self.number)
        records = await self.client.hmget(key, names) if names else []
        return list(map(with_host, leases, records))

    def number_settlement(self) -> int:
        """The next call of settle.lua by this worker (settling.py)."""
        self._settlements += 1
        return self._settlements

    async def ask_for_holds(self) -> None:
        """Ask what the reply to a lease or a settlement says, for a worker that had neither for a
        while."""
        found = await self.client.hget(keys.meta(self.crawl, self.number), "holds")
        with refusing_damage("holds"):
            self.note_holds(int(found or 0))

    def note_holds(self, holds: int) -> None:
        self.holds, self.holds_read_at_s = holds, time.monotonic()

    async def confirm_push(self, worker: str, client: Any) -> bool:
        """True if the worker's last push is still here; asked, and noted, by way of `client`."""
        is_here = bool(await self.call("confirm_push", [worker, self.pushes or 0], client))
        if not is_here:
            self._updates.forget()
        return is_here

    async def renew(self, worker: str, timeout_ms: int, about: dict[str, Any]) -> Renewed:
        """The heartbeat; tells whether the worker was known (still)."""
        args = [worker, timeout_ms, json.dumps(about)]
        known, state, paces, leases, is_to_leave, tokens = await self.call("renew", args)
        outrun = tuple((self.number, token) for token in tokens)
        return Renewed(bool(known), state.decode(), paces, leases, bool(is_to_leave), outrun)

    async def change_pace(self, host: str, values: dict[str, Any] | None) -> None:
        """Treat a host differently, while the crawl runs; None takes back all that was changed."""
        await self.call("change_pace", [host, "" if values is None else json.dumps(values)])

    async def paces(self) -> dict[str, dict[str, Any]]:
        """Hosts, and what has been changed for them while the crawl runs."""
        found: dict[str, dict[str, Any]] = {}
        for name, values in (await self.meta()).items():
            if name.startswith(PACE):
                # What cannot be read is as good as not there; the next change replaces it.
                with suppress(ValueError, TypeError):
                    found[name.removeprefix(PACE)] = {**json.loads(values)}
        return found

    async def leave(self, worker: str) -> bool:
        """Say goodbye; False if something is still held and will be reclaimed."""
        return bool(await self.call("leave", [worker]))

    async def finish(self, others_at_rest: bool = True, reopened: str = "") -> State:
        """End the crawl here if nothing is left to do and it has not been opened again since the
        other shards were looked at; returns the state afterwards."""
        args = [int(others_at_rest), reopened]
        state: State = (await self.call("finish", args)).decode()
        return state

    async def reopen(self) -> State:
        """Go on here if the crawl has ended; returns the state afterwards."""
        state: State = (await self.call("reopen", [int(self.number == 0)])).decode()
        return state

    async def times_reopened(self) -> str:
        """How often the crawl was opened again: what `finish` compares."""
        found = await self.client.hget(keys.meta(self.crawl, self.number), "reopened")
        return (found or b"0").decode()

    async def set_state(self, wanted: State, allowed_from: Sequence[State]) -> State:
        """Set the state that all workers obey; returns the state afterwards."""
        state: State = (await self.call("set_state", [wanted, " ".join(allowed_from)])).decode()
        return state

    async def filter_queued(self, reason: str, most_hosts: int = 1000) -> int:
        """Filter what is queued, some hosts a call; returns how many URLs that were."""
        return int(await self.call("filter_queued", [most_hosts, reason]))

    async def dead(self) -> AsyncIterator[DeadLetter]:
        """The dead letters; one that is moved meanwhile may be missed or come twice."""
        scan = self.client.hscan_iter(keys.dead(self.crawl, self.number), count=500)
        async for number, packed in scan:
            # What cannot be read is no letter of ours; it stays where it is.
            with suppress(ValueError, TypeError, AttributeError):
                host, level, entry, reason, at_ms, *times = unpack_all(packed)
                yield DeadLetter(
                    self.number,
                    int(number),
                    host.decode(),
                    level,
                    entry,
                    reason.decode(),
                    int(at_ms),
                    int(times[0]) if times else 1,
                )

    async def retry_dead(self, numbers: Sequence[int]) -> int:
        """Queue dead letters again, untried; returns how many were still there."""
        return int(await self.call("retry_dead", [pack(numbers)]))

    async def forget_dead(self, numbers: Sequence[int]) -> int:
        """Throw dead letters away; returns how many were still there."""
        return int(await self.call("forget_dead", [pack(numbers)]))

    async def release_pattern(
        self, host: str, pattern: str, pushed: int, new: int, most: int
    ) -> list[Any]:
        """Release a URL pattern; returns what was kept of it, as pattern_store.py reads it."""
        _, packed = await self.call("release_pattern", [host, pattern, pushed, new, most])
        return list(unpack(packed))

    async def wants_pages(self) -> bool:
        """True if URLs wait here for which the shard's page budget has no room."""
        pages = int((await self.meta())["pages"])
        counts = await self.counts()
        waiting = counts.get("queued", 0) + counts.get("delayed", 0)
        return waiting > 0 and pages_used(counts) >= pages

    async def spare_pages(self) -> int:
        """Pages that the shard's budget has for links: see lua/lease.lua."""
        counts = await self.counts()
        kept = pages_used(counts) + counts.get("reserved", 0)
        return int((await self.meta())["pages"]) - kept

    async def give_pages(self, other: Shard, lacking: int = 0) -> None:
        """Give the page budget that is not needed here to another shard: all of it, or, where the
        other lacks pages for its seeds, as many as links here can do without."""
        offer = await self.call("offer_pages", [other.number, lacking])
        if offer:
            number, to, pages = offer
            taker = Shard(self.client, self.crawl, int(to), Geometry(1, 0.1), epoch=self.epoch)
            await taker.call("take_pages", [self.number, number, pages])
            await self.call("drop_offer", [number])

    async def counts(self) -> dict[str, int]:
        """The ledger, as it stands."""
        with refusing_damage("counts"):
            return read_counts(await self.client.hgetall(keys.counts(self.crawl, self.number)))

    async def meta(self) -> dict[str, str]:
        """Epoch, state, limits and plan; empty when no crawl is here."""
        with refusing_damage("meta"):
            found = await self.client.hgetall(keys.meta(self.crawl, self.number))
            return {name.decode(): value.decode() for name, value in found.items()}

    async def layer_items(self) -> list[int]:
        """URLs recorded in each open layer of the seen filter."""
        with refusing_damage("layers"):
            return read_layers(await self.client.hgetall(keys.layers(self.crawl, self.number)))

    def forget_seen(self) -> None:
        """Begin a fresh replica: whatever is met is asked about, until it is warm."""
        self.replica = Replica(self.geometry)
        self._updates.forget()

    async def warm(self, chunk_bytes: int = 1 << 20) -> None:
        """Fill a fresh replica from the shared bitmaps, in pieces that block nobody for long."""
        warming = Warming()
        self.forget_seen()
        self.server, self.is_stale = await self.call("identify_server", []), False
        for layer in range(len(await self.layer_items())):
            self.replica.grow(layer + 1)
            key = keys.seen_prefix(self.crawl, self.number) + str(layer)
            raw = bytearray()
            while piece := await self.client.getrange(key, len(raw), len(raw) + chunk_bytes - 1):
                raw += piece
                warming.received(len(piece))
            self.replica.load(layer, raw)

    def sampled(self, key: str) -> int:
        """1 for the share of URLs that is also kept exactly, to audit the filter."""
        first: int = next(iter(self.replica.layers[0].make_hashes(key)))
        return int(first % self.audit_one_in == 0)

    def _offsets(self, item: Push) -> Offsets:
        return [] if item.kind == Kind.UNFILTERED else self.replica.offsets(item.key)


def _host_fields(batch: Sequence[Push]) -> bytes:
    """What lua/push.lua reads of the hosts, one after the other; mostly there is nothing to say."""
    hosts = {item.host: item for item in batch if item.group or item.per_host}
    return pack(
        [value for host, item in hosts.items() for value in (host, item.group, item.per_host)]
    )


def pages_used(counts: Mapping[str, int]) -> int:
    """Pages of a budget that are fetched, or being fetched; each revisit is one more."""
    return sum(counts.get(name, 0) for name in ("done", "leased", "revisits"))
