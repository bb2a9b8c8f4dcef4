"""One shard of the frontier: a typed method for each script, and nothing else.

Callers never see keys or arguments. A shard knows the crawl's epoch from `open()` on and
works in no other.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from operator import attrgetter
from struct import Struct
from typing import Any

from redis.exceptions import ResponseError

from crawlproj.frontier import keys
from crawlproj.frontier.bloom import Geometry, Offsets, Replica
from crawlproj.frontier.clock import clock_s
from crawlproj.frontier.messages import (
    Batch,
    Kind,
    Lease,
    Letter,
    Opened,
    Push,
    Reclaimed,
    Renewed,
    Settlement,
    State,
)
from crawlproj.frontier.refusals import (
    CrawlDamaged,
    CrawlFinished,
    CrawlReplaced,
    CrawlWiped,
    WorkerDeclaredDead,
)
from crawlproj.frontier.scripts import script
from crawlproj.frontier.seen_updates import News
from crawlproj.frontier.wire import pack, unpack, unpack_all

PACE = "pace:"
"""How fields of META begin that change the pace of a host (lua/pace.lua)."""

_REFUSALS: dict[str, type[Exception]] = {
    "WIPED": CrawlWiped,
    "EPOCH": CrawlReplaced,
    "FINISHED": CrawlFinished,
    "UNKNOWN": WorkerDeclaredDead,
}


_STUMBLED = "@user_script"
"""In what Redis says when a script has met something that no script of ours has written."""

CLEARED_AT_ONCE = 500
"""Hosts of an earlier crawl that one call clears away."""

MOST_COOKIES, MOST_COOKIE_BYTES = 180, 64 * 1024
"""Cookies that are kept of a registrable domain, all its hosts and jars together, and their bytes:
about what browsers keep."""

MOST_LAYERS = 64
"""Layers of a seen filter that were written by us: each is twice as large as the one before."""


# astuple() would copy each field deeply, at fifty times the price.
_in_order = attrgetter(*(one.name for one in fields(Settlement)))


@dataclass
class Shard:
    """The scripts of one shard, bound to a client and, once opened, to an epoch.

    `is_stale` says that another server keeps the shard than the one that the replica copies;
    `holds` is how often, as was last told, a host was to be left alone of which more was leased,
    and `heeded` how many of those the worker has looked at.
    """

    client: Any
    crawl: str
    number: int
    geometry: Geometry
    audit_one_in: int = 1024
    epoch: str = ""
    replica: Replica = field(init=False)
    pushes: int | None = None
    tokens: int = 0
    server: bytes | None = None
    is_stale: bool = False
    calls: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0

    def __post_init__(self) -> None:
        self.keys = keys.vector(self.crawl, self.number)
        self._bytes_of_keys = _bytes_in(self.keys)
        self._unanswered: tuple[int, Sequence[Push]] | None = None
        self.replica = Replica(self.geometry)
        self._news = News()
        self.holds = self.heeded = 0
        self.cookie_changes = 0
        self.told_at_s = float("-inf")
        self._asked_at_s: float | None = None

    async def open(
        self,
        new_epoch: str,
        *,
        follow: str,
        run: str,
        fields: dict[str, Any],
        lasts_ms: int,
        brings_seed: bool = True,
        seed_found_at: str = "",
    ) -> Opened:
        """Begin, join or resume the crawl; `follow` names the epoch that another shard is in. Only
        a seed begins one: one that the caller has itself, or has found while this was the epoch."""
        args = [new_epoch, follow, run, pack(fields), lasts_ms, int(brings_seed), seed_found_at]
        mode, epoch, state, plan = await self._run("open", args)
        while mode == b"leftovers":
            await self._clear(epoch, int(plan))
            mode, epoch, state, plan = await self._run("open", args)
        self.epoch = epoch.decode()
        with as_written("plan"):
            return Opened(mode.decode(), self.epoch, state.decode(), json.loads(plan or b"{}"))

    async def _clear(self, epoch: bytes, what: int) -> None:
        """Make room for another crawl, in pieces that block nobody for long."""
        cursor: Any = 0
        while what:
            what, cursor = await self._run("clear", [epoch, what, cursor, CLEARED_AT_ONCE])

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
            args += [slices, _homes(batch), self._news.untold, self._news.server]
            open_layers, *reply = await self._call("push", args)
            await self._know_layers(open_layers)
            if reply:
                break
        self.pushes, self._unanswered = number, None
        found = unpack(reply[0])
        self._news.note(server, len(layers) - 1, self._learn(len(layers), offsets, found))
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

    async def _know_layers(self, count: int) -> None:
        if count < len(self.replica.layers):
            await self.warm()  # the server has lost some: it was restarted, or failed over
        self.replica.grow(_layer_count(count))

    def _learn(self, layers: int, offsets: list[Offsets], found: list[int]) -> list[int]:
        """Copy what the push has set in the last of the layers, or found set, in Redis; returns the
        former. A repeated push tells neither."""
        new: list[int] = []
        for bits, layer in zip(offsets, found, strict=False):
            if bits and layer > 0:
                self.replica.add(layer - 1, bits[layer - 1])
            elif bits and layer == 0:
                new += bits[-1]
        self.replica.add(layers - 1, new)
        return new

    async def lease(self, worker: str, wanted: int, *, no_links: bool = False) -> Batch:
        """Take up to so many URLs of hosts that are due."""
        args = [worker, wanted, self.tokens, self._news.heard, int(no_links)]
        reply = await self._call("lease", args)
        state, next_ms, scope, packed, server, heard, told, holds, spare, cookies = reply
        self.cookie_changes = cookies
        self.is_stale = self.is_stale or self.server not in (None, server)
        self._news.hear(told, heard, self.replica)
        self._hear_of(holds)
        fields = iter(unpack(packed))
        leases = [
            Lease(
                *(self.number, token, host.decode(errors="replace"), level, entry, failures, pages),
                group.decode(),
            )
            for token, host, level, entry, failures, pages, group in zip(*[fields] * 7, strict=True)
        ]
        self.tokens = max([self.tokens, *(lease.token for lease in leases)])
        return Batch(state.decode(), next_ms, scope, leases, None if spare == b"" else spare)

    async def held(self, worker: str) -> list[Lease]:
        """All that a worker holds here: what it asks after a reply to `lease` was lost."""
        found = await self.client.hgetall(keys.leased_prefix(self.crawl, self.number) + worker)
        leases = []
        for token, packed in found.items():
            # What cannot be read is no lease of ours; the scripts set it aside.
            with suppress(ValueError, TypeError, AttributeError):
                host, level, entry, _, group = (*unpack_all(packed), False, b"")[:5]
                about = (int(token), host.decode(), level, entry)
                leases.append(Lease(self.number, *about, group=(group or b"").decode()))
        return leases

    async def settle(
        self, worker: str, batch: Sequence[Settlement], new_items: Mapping[str, int] | None = None
    ) -> list[int]:
        """End leases, and count items of spiders; returns the tokens that were no longer this
        worker's."""
        items = pack([value for settlement in batch for value in _in_order(settlement)])
        counted = pack([value for pair in (new_items or {}).items() for value in pair])
        _, late, holds = await self._call("settle", [worker, items, counted])
        self._hear_of(holds)
        return list(unpack(late))

    async def ask_for_holds(self) -> None:
        """What a lease or a settlement would tell, for a worker that had neither for a while."""
        found = await self.client.hget(keys.meta(self.crawl, self.number), "holds")
        with as_written("holds"):
            self._hear_of(int(found or 0))

    def _hear_of(self, holds: int) -> None:
        self.holds, self.told_at_s = holds, time.monotonic()

    async def share_cookies(self, changes: Mapping[str, Mapping[str, bytes]]) -> None:
        """Keep what has become of the cookies of domains, by their ids (b"" for one that is gone),
        and tell all workers with their leases that there is something to hear."""
        items = [
            part
            for domain, cookies in changes.items()
            for part in (domain, [value for pair in cookies.items() for value in pair])
        ]
        await self._call("cookies", [pack(items), MOST_COOKIES, MOST_COOKIE_BYTES])

    async def cookies_of(self, domains: Sequence[str]) -> list[dict[str, bytes]]:
        """The cookies that are kept of domains, by their ids."""
        key = keys.cookies(self.crawl, self.number)
        return [_cookies(packed) for packed in await self.client.hmget(key, domains)]

    async def vouch(self, worker: str, client: Any) -> bool:
        """True if the worker's last push is still here; asked, and noted, by way of `client`."""
        is_here = bool(await self._call("vouch", [worker, self.pushes or 0], client))
        if not is_here:
            self._news.forget()
        return is_here

    async def renew(self, worker: str, timeout_ms: int, about: dict[str, Any]) -> Renewed:
        """The heartbeat; tells whether the worker was known (still)."""
        args = [worker, timeout_ms, json.dumps(about)]
        known, state, paces, leases = await self._call("renew", args)
        return Renewed(bool(known), state.decode(), paces, leases)

    async def change_pace(self, host: str, values: dict[str, Any] | None) -> None:
        """Treat a host differently, while the crawl runs; None takes back all that was changed."""
        await self._call("pace", [host, "" if values is None else json.dumps(values)])

    async def replan(
        self, plan: str, becomes: str, fields: dict[str, Any], pages: int, lasts_ms: int | None
    ) -> bool:
        """Change the plan while the crawl goes on; False if it is another by now."""
        until = "" if lasts_ms is None else lasts_ms
        return bool(await self._call("replan", [plan, becomes, pack(fields), pages, until]))

    async def paces(self) -> dict[str, dict[str, Any]]:
        """Hosts, and what has been changed for them while the crawl runs."""
        found: dict[str, dict[str, Any]] = {}
        for name, values in (await self.meta()).items():
            if name.startswith(PACE):
                # What cannot be read is as good as not there; the next change replaces it.
                with suppress(ValueError, TypeError):
                    found[name.removeprefix(PACE)] = {**json.loads(values)}
        return found

    async def reclaim(self, most: int = 10) -> Reclaimed:
        """Queue again what dead workers held."""
        workers, queued, packed = await self._call("reclaim", [most])
        dead = [
            (host.decode(errors="replace"), level, entry) for host, level, entry in unpack(packed)
        ]
        return Reclaimed(workers, queued, dead)

    async def leave(self, worker: str) -> bool:
        """Say goodbye; False if something is still held and will be reclaimed."""
        return bool(await self._call("leave", [worker]))

    async def finish(self, others_at_rest: bool = True, reopened: str = "") -> State:
        """End the crawl here if nothing is left to do and it has not been opened again since the
        other shards were looked at; returns the state afterwards."""
        args = [int(others_at_rest), reopened]
        state: State = (await self._call("finish", args)).decode()
        return state

    async def reopen(self) -> State:
        """Go on here if the crawl has ended; returns the state afterwards."""
        state: State = (await self._call("reopen", [int(self.number == 0)])).decode()
        return state

    async def times_reopened(self) -> str:
        """What `finish` is to be told."""
        found = await self.client.hget(keys.meta(self.crawl, self.number), "reopened")
        return (found or b"0").decode()

    async def control(self, wanted: State, allowed_from: Sequence[State]) -> State:
        """Set the state that all workers obey; returns the state afterwards."""
        state: State = (await self._call("control", [wanted, " ".join(allowed_from)])).decode()
        return state

    async def drain(self, reason: str, most_hosts: int = 1000) -> int:
        """Filter what is queued, some hosts a call; returns how many URLs that were."""
        return int(await self._call("drain", [most_hosts, reason]))

    async def dead(self) -> AsyncIterator[Letter]:
        """The dead letters; one that is moved meanwhile may be missed or come twice."""
        scan = self.client.hscan_iter(keys.dead(self.crawl, self.number), count=500)
        async for number, packed in scan:
            # What cannot be read is no letter of ours; it stays where it is.
            with suppress(ValueError, TypeError, AttributeError):
                host, level, entry, reason, at_ms, times = (*unpack_all(packed), 1)[:6]
                about = (host.decode(), level, entry, reason.decode(), int(at_ms), int(times))
                yield Letter(self.number, int(number), *about)

    async def revive(self, letters: Sequence[int]) -> int:
        """Queue dead letters again, untried; returns how many were still there."""
        return int(await self._call("revive", [pack(letters)]))

    async def forget(self, letters: Sequence[int]) -> int:
        """Throw dead letters away; returns how many were still there."""
        return int(await self._call("forget", [pack(letters)]))

    async def release(self, host: str, pattern: str, pushed: int, new: int, most: int) -> list[Any]:
        """Release a URL pattern; returns what was kept of it, as pattern_store.py reads it."""
        _, packed = await self._call("release", [host, pattern, pushed, new, most])
        return list(unpack(packed))

    async def wants_pages(self) -> bool:
        """True if URLs wait here for which the shard's page budget has no room."""
        pages = int((await self.meta())["pages"])
        counts = await self.counts()
        waiting = counts.get("queued", 0) + counts.get("delayed", 0)
        return waiting > 0 and counts.get("done", 0) + counts.get("leased", 0) >= pages

    async def spare_pages(self) -> int:
        """Pages that the shard's budget has for links: see lua/lease.lua."""
        counts = await self.counts()
        kept = sum(counts.get(name, 0) for name in ("done", "leased", "reserved"))
        return int((await self.meta())["pages"]) - kept

    async def give_pages(self, other: Shard, lacking: int = 0) -> None:
        """Hand the page budget that is not needed here to another shard: all of it, or what links
        could do without of the pages that the other lacks for its seeds."""
        offer = await self._call("give", [other.number, lacking])
        if offer:
            number, to, pages = offer
            taker = Shard(self.client, self.crawl, int(to), Geometry(1, 0.1), epoch=self.epoch)
            await taker._call("take", [self.number, number, pages])
            await self._call("given", [number])

    async def counts(self) -> dict[str, int]:
        """The ledger, as it stands."""
        with as_written("counts"):
            return read_counts(await self.client.hgetall(keys.counts(self.crawl, self.number)))

    async def meta(self) -> dict[str, str]:
        """Epoch, state, limits and plan; empty when no crawl is here."""
        with as_written("meta"):
            found = await self.client.hgetall(keys.meta(self.crawl, self.number))
            return {name.decode(): value.decode() for name, value in found.items()}

    async def layer_items(self) -> list[int]:
        """URLs recorded in each open layer of the seen filter."""
        with as_written("layers"):
            return read_layers(await self.client.hgetall(keys.layers(self.crawl, self.number)))

    async def warm(self, chunk_bytes: int = 1 << 20) -> None:
        """Fill a fresh replica from the shared bitmaps, in pieces that block nobody for long."""
        self.replica = Replica(self.geometry)
        self._news.forget()
        self.server, self.is_stale = await self._call("identify", []), False
        for layer in range(len(await self.layer_items())):
            self.replica.grow(layer + 1)
            key = keys.seen_prefix(self.crawl, self.number) + str(layer)
            raw = bytearray()
            while piece := await self.client.getrange(key, len(raw), len(raw) + chunk_bytes - 1):
                raw += piece
            self.replica.load(layer, raw)

    def sampled(self, key: str) -> int:
        """1 for the share of URLs that is also kept exactly, to audit the filter."""
        first: int = next(iter(self.replica.layers[0].make_hashes(key)))
        return int(first % self.audit_one_in == 0)

    def _offsets(self, item: Push) -> Offsets:
        return [] if item.kind == Kind.UNFILTERED else self.replica.offsets(item.key)

    async def now_ms(self) -> int:
        """The time on the crawl's clock (lua/_clock.lua)."""
        seconds, micros = await self.client.time()
        skew_ms = await self.client.hget(keys.meta(self.crawl, self.number), "skew_ms")
        with as_written("skew_ms"):
            return int(seconds) * 1000 + int(micros) // 1000 + int(skew_ms or 0)

    async def _call(self, name: str, args: list[Any], client: Any = None) -> Any:
        asked_at_s = clock_s()
        reply = await self._run(name, [self._stamp(asked_at_s), *args], client)
        self._asked_at_s = max(asked_at_s, self._asked_at_s or 0.0)
        return reply

    def _stamp(self, now_s: float) -> str:
        """The epoch, and what tells a script whether the server's clock has stepped."""
        if self._asked_at_s is None:
            return self.epoch
        return f"{self.epoch} {max(0, round((now_s - self._asked_at_s) * 1000))}"

    async def _run(self, name: str, args: list[Any], client: Any = None) -> Any:
        self.calls += 1
        self.bytes_sent += self._bytes_of_keys + _bytes_in(args)
        try:
            reply = await script(name)(client or self.client, self.keys, args)
            self.bytes_received += _bytes_in(reply)
            return reply
        except ResponseError as error:
            raise meaning_of(error) from None


def meaning_of(error: ResponseError) -> Exception:
    """What a script's error says about the crawl; the error itself if it says nothing."""
    code, _, text = str(error).partition(" ")
    if code in _REFUSALS:
        return _REFUSALS[code](text)
    if _STUMBLED in text and not (code.isupper() and code != "WRONGTYPE"):
        return CrawlDamaged(str(error))
    return error


def _cookies(packed: bytes | None) -> dict[str, bytes]:
    # What cannot be read is none of ours; the next change replaces it.
    with suppress(ValueError, TypeError, AttributeError):
        values = unpack(packed) if packed else []
        pairs = zip(values[::2], values[1::2], strict=True)
        return {id_.decode(): cookie for id_, cookie in pairs if isinstance(cookie, bytes)}
    return {}


@contextmanager
def as_written(what: str) -> Iterator[None]:
    """Inside, what is read must be what a script has written."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise CrawlDamaged(f"{what}: {error}") from None
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        raise CrawlDamaged(f"{what} is of another type") from None


def read_counts(found: Mapping[bytes, bytes]) -> dict[str, int]:
    """The ledger, as COUNTS holds it."""
    return {name.decode(): int(value) for name, value in found.items()}


def read_layers(found: Mapping[bytes, bytes]) -> list[int]:
    """URLs recorded in each open layer of the seen filter, as LAYERS holds them."""
    layers = _layer_count(int(found.get(b"open", 1)))
    return [int(found.get(f"items:{layer}".encode(), 0)) for layer in range(layers)]


def _homes(batch: Sequence[Push]) -> bytes:
    """What lua/push.lua reads of the hosts, one after the other; mostly there is nothing to say."""
    told = {item.host: item for item in batch if item.group or item.per_host}
    return pack(
        [value for host, item in told.items() for value in (host, item.group, item.per_host)]
    )


def _layer_count(count: int) -> int:
    if not 1 <= count <= MOST_LAYERS:
        raise CrawlDamaged(f"{count} layers of the seen filter")
    return count


def _bytes_in(values: Any) -> int:
    """The size of arguments or of a reply, their frame left out; numbers are small."""
    if isinstance(values, list):
        return sum(map(_bytes_in, values))
    return len(values) if isinstance(values, bytes | str) else 0
