"""What workers and shards tell each other: URLs on their way in, leases, and how they end. Pure.

The scripts in lua/ take and give the same, field by field, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

State = Literal["running", "paused", "stopping", "stopped", "finished", "limit"]
Verdict = Literal["done", "filtered", "set_aside", "dead", "retry", "wait", "return", "keep"]


class Arrival(NamedTuple):
    """How a worker comes to a crawl. Only a seed begins one: one that the worker brings itself, or
    has found while `seed_found_at` was the epoch. Who has waited says how many `dismissals` there
    were when it began to: if there are more now, it has been stopped meanwhile."""

    brings_seed: bool = True
    seed_found_at: str = ""
    dismissals: int | None = None


WITH_SEED = Arrival()


class Kind(IntEnum):
    """How a pushed URL meets the seen filter (lua/push.lua)."""

    LINK = 0
    SEED = 1
    UNFILTERED = 2
    FILTERED = 3
    SET_ASIDE = 4


class Push(NamedTuple):
    """A URL on its way in. For `Kind.FILTERED` the entry is the reason, for `Kind.SET_ASIDE` what
    pattern_store.py makes of it. The frontier adds the group of its host and, where they differ
    from the crawl's, the connections that may be made."""

    kind: Kind
    host: str
    level: float
    entry: bytes
    key: str
    group: str = ""
    per_host: int = 0


LeaseName = tuple[int, int]
"""The shard and the token of a lease, by which a reply that comes twice, or late, is known."""


class Lease(NamedTuple):
    """A URL that this worker holds."""

    shard: int
    token: int
    host: str
    level: float
    entry: bytes
    host_failures: int = 0
    host_pages: int = 0
    group: str = ""

    @property
    def name(self) -> LeaseName:
        return self.shard, self.token


@dataclass(slots=True)
class Settlement:
    """How a lease ends; `ended_ago_ms`, `pause_ms` and `hold_ms` say when its host may be asked
    again (and `hold_reason` why not before), `failed` how the host is, `per_host` and `group` what
    has become known of it (lua/settle.lua), status and size are for the reports."""

    token: int
    verdict: Verdict
    ended_ago_ms: int = 0
    pause_ms: int = 0
    reason: str = ""
    entry: bytes = b""
    delay_ms: int = 0
    status: int = 0
    size: int = 0
    failed: int = 0
    hold_ms: int = 0
    hold_reason: str = ""
    per_host: int = 0
    group: str = ""


class Opened(NamedTuple):
    mode: Literal["new", "joined", "resumed", "finished", "waiting"]
    epoch: str
    state: State
    plan: str
    """As Redis keeps it (plan.py)."""


class Batch(NamedTuple):
    """What a lease call brought; `next_due_ms` is when there is more to lease, if that is known;
    `spare` is how many pages the budget of a shard has for links, less than 0 if it has too few for
    the seeds that wait there; `short_at` are the shards of which other workers have too little to
    do: what is had ahead of them is to be returned."""

    state: State
    next_due_ms: int | None
    scope_size: int
    leases: list[Lease]
    spare: int | None = None
    short_at: tuple[int, ...] = ()


class Renewed(NamedTuple):
    """What a heartbeat brought; `paces` counts the changes of pace that all workers go by,
    `leases` what the worker holds; `is_to_leave` says that a user takes it out of service;
    `outrun` are the leases whose URL another worker has settled."""

    known: bool
    state: State
    paces: int
    leases: int
    is_to_leave: bool = False
    outrun: tuple[LeaseName, ...] = ()


class Lost(NamedTuple):
    """A URL that was lost with its workers too often."""

    host: str
    level: float
    entry: bytes


class Reclaimed(NamedTuple):
    """What was taken back from dead workers; `dead` are URLs that were lost too often and are not
    known to be reported, the last of the `told` ones that this worker has heard of so far."""

    workers: int
    queued: int
    dead: list[Lost]
    told: int = 0


class DeadLetter(NamedTuple):
    """A dead letter: a URL that was given up so many `times`, and what is known of the last."""

    shard: int
    number: int
    host: str
    level: float
    entry: bytes
    reason: str
    at_ms: int
    times: int = 1
