"""Every Redis key of a crawl, one function each.

All keys of a shard carry the shard's hash tag, so that on a Redis Cluster they share one
slot and one script can touch them all. The seeds list is the one key that users write to;
it has its own slot. Some keys have older names on the server than in the code (`news`, `aside`,
`names`): crawls that run keep what they have.
"""

from __future__ import annotations


def tag(crawl: str, shard: int) -> str:
    """The hash tag that keeps a shard's keys in one slot."""
    return f"{{{crawl}:{shard}}}"


def start_urls(crawl: str) -> str:
    """List of seeds that users push: plain URLs or JSON."""
    return f"{crawl}:start_urls"


def rejected(start_urls_key: str) -> str:
    """List of seeds that could not be used, each with its reason."""
    return f"{start_urls_key}:rejected"


def found_hosts(start_urls_key: str) -> str:
    """Set of hosts' names that seeds lead to and that no user has named."""
    return f"{start_urls_key}:found_hosts"


def taking(start_urls_key: str) -> str:
    """String that expires: the worker whose turn it is to take in seeds."""
    return f"{start_urls_key}:taking"


def meta(crawl: str, shard: int) -> str:
    """Hash: epoch, state, limits, plan, running numbers."""
    return f"{tag(crawl, shard)}:meta"


def counts(crawl: str, shard: int) -> str:
    """Hash: the ledger."""
    return f"{tag(crawl, shard)}:counts"


def hosts(crawl: str, shard: int) -> str:
    """Hash: host -> its levels, what is out, what is pausing, its pages."""
    return f"{tag(crawl, shard)}:hosts"


def ready(crawl: str, shard: int) -> str:
    """Sorted set: hosts that may be contacted now."""
    return f"{tag(crawl, shard)}:ready"


def waiting(crawl: str, shard: int) -> str:
    """Sorted set: hosts that may be contacted later."""
    return f"{tag(crawl, shard)}:waiting"


def delayed(crawl: str, shard: int) -> str:
    """Sorted set: URLs to try again later."""
    return f"{tag(crawl, shard)}:delayed"


def workers(crawl: str, shard: int) -> str:
    """Sorted set: worker -> when it counts as dead."""
    return f"{tag(crawl, shard)}:workers"


def about(crawl: str, shard: int) -> str:
    """Hash: worker -> what it tells about itself."""
    return f"{tag(crawl, shard)}:about"


def dead(crawl: str, shard: int) -> str:
    """Hash: the dead letters."""
    return f"{tag(crawl, shard)}:dead"


def seeds(crawl: str, shard: int) -> str:
    """Set: the seeds, exactly."""
    return f"{tag(crawl, shard)}:seeds"


def audit(crawl: str, shard: int) -> str:
    """Set: the sampled URLs, exactly."""
    return f"{tag(crawl, shard)}:audit"


def scope(crawl: str, shard: int) -> str:
    """Sorted set: hosts or domains that the seeds brought into scope, in the order they came."""
    return f"{tag(crawl, shard)}:names"


def old_scope(crawl: str, shard: int) -> str:
    """Set: hosts or domains in scope as an older version kept them, until a worker has joined."""
    return f"{tag(crawl, shard)}:scope"


def layers(crawl: str, shard: int) -> str:
    """Hash: how full each layer of the seen filter is."""
    return f"{tag(crawl, shard)}:layers"


def seen_prefix(crawl: str, shard: int) -> str:
    """+ layer number: bitmap, one layer of the seen filter."""
    return f"{tag(crawl, shard)}:seen:"


def queue_prefix(crawl: str, shard: int) -> str:
    """+ level:host: list, a host's URLs of one priority level."""
    return f"{tag(crawl, shard)}:queue:"


def queue(crawl: str, shard: int, level: float, host: str) -> str:
    """One queue of a host."""
    return f"{queue_prefix(crawl, shard)}{level}:{host}"


def leased_prefix(crawl: str, shard: int) -> str:
    """+ worker: hash, what a worker holds."""
    return f"{tag(crawl, shard)}:leased:"


def found(crawl: str, shard: int) -> str:
    """Hash: what the links to each queued one are worth, where the strategy counts it."""
    return f"{tag(crawl, shard)}:found"


def patterns(crawl: str, shard: int) -> str:
    """Hash: the URL patterns that are set aside, or were and have been released."""
    return f"{tag(crawl, shard)}:patterns"


def set_aside_prefix(crawl: str, shard: int) -> str:
    """+ host pattern: list, URLs of a pattern that is set aside."""
    return f"{tag(crawl, shard)}:aside:"


def set_aside(crawl: str, shard: int, host: str, pattern: str) -> str:
    """What is set aside of one pattern."""
    return f"{set_aside_prefix(crawl, shard)}{host} {pattern}"


def groups(crawl: str, shard: int) -> str:
    """Hash: group of hosts -> what is out, what is pausing, its pages."""
    return f"{tag(crawl, shard)}:groups"


def line_prefix(crawl: str, shard: int) -> str:
    """+ group: sorted set, its hosts that could be contacted now."""
    return f"{tag(crawl, shard)}:line:"


def seen_updates(crawl: str, shard: int) -> str:
    """Stream: bits that workers have lately added to the seen filter, for the others' replicas."""
    return f"{tag(crawl, shard)}:news"


def cookies(crawl: str, shard: int) -> str:
    """Hash: domain -> the cookies that its sites have given, where workers share them."""
    return f"{tag(crawl, shard)}:cookies"


def robots(crawl: str, shard: int, host: str) -> str:
    """String that expires: what a host's robots.txt says."""
    return f"{tag(crawl, shard)}:robots:{host}"


def payloads(crawl: str, shard: int) -> str:
    """Hash: start of a payload's SHA-256 -> when and at which URL it was archived
    (payloads.py)."""
    return f"{tag(crawl, shard)}:payloads"


def history_prefix(crawl: str, shard: int) -> str:
    """+ step in seconds: list, how the shard stood at one moment after the other."""
    return f"{tag(crawl, shard)}:history:"


def shared_pace(part: int, host: str) -> str:
    """Hash that expires: the turns of requests at a host that several crawls ask. Of no crawl."""
    return f"{{shared_pace:{part}}}:{host}"


def resting(crawl: str, shard: int) -> str:
    """Hash: number of a URL -> the URL, which is done and to be revisited, see resting.py."""
    return f"{tag(crawl, shard)}:resting"


def due(crawl: str, shard: int) -> str:
    """Sorted set: the same numbers, by when their URLs are due."""
    return f"{tag(crawl, shard)}:due"


def near(crawl: str, shard: int) -> str:
    """Hash: fingerprints of pages, and where to look for them, see lua/find_near.lua."""
    return f"{tag(crawl, shard)}:near"


def outcomes_prefix(crawl: str, shard: int) -> str:
    """+ bucket: hash, part of a URL's number -> what became of it; + names: hash."""
    return f"{tag(crawl, shard)}:outcomes:"


def leased_at(crawl: str, shard: int) -> str:
    """Sorted set: leases that may be copied, by when they were made (lua/_copies.lua)."""
    return f"{tag(crawl, shard)}:leased_at"


def durations(crawl: str, shard: int) -> str:
    """Hash: how many leases lasted how long (lua/_copies.lua)."""
    return f"{tag(crawl, shard)}:durations"


def replies(crawl: str, shard: int) -> str:
    """Hash: what workers have been told and may not have heard, see lua/_keys.lua."""
    return f"{tag(crawl, shard)}:replies"


VECTOR = (
    meta,
    counts,
    hosts,
    ready,
    waiting,
    delayed,
    workers,
    about,
    dead,
    seeds,
    audit,
    scope,
    layers,
    seen_prefix,
    queue_prefix,
    leased_prefix,
    found,
    patterns,
    set_aside_prefix,
    groups,
    line_prefix,
    seen_updates,
    cookies,
    old_scope,
    payloads,
    history_prefix,
    resting,
    due,
    near,
    outcomes_prefix,
    leased_at,
    durations,
    replies,
)


def vector(crawl: str, shard: int) -> list[str]:
    """The keys that every script is given, in the order that lua/_keys.lua names them."""
    return [key(crawl, shard) for key in VECTOR]
