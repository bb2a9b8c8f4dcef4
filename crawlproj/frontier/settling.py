"""Ends leases on one shard; combined.py does on several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import NamedTuple

from crawlproj.frontier.messages import Settlement
from crawlproj.frontier.shard import Shard
from crawlproj.frontier.wire import in_groups, pack, unpack

# astuple() would copy each field deeply, at fifty times the price.
_in_order = attrgetter(*(one.name for one in fields(Settlement)))


class Answer(NamedTuple):
    """Tokens that were no longer the worker's, and whether that is known: if the call is repeated,
    and the shard has forgotten it, they may have been settled by the call before."""

    late: list[int]
    is_certain: bool = True


async def settle(
    shard: Shard,
    worker: str,
    batch: Sequence[Settlement],
    new_items: Mapping[str, int] | None = None,
    *,
    call: int | None = None,
    is_repeated: bool = False,
) -> Answer:
    """End leases, and count items of spiders. A call of this number that is repeated, since its
    reply was lost, changes nothing if it was carried out."""
    items = pack([value for settlement in batch for value in _in_order(settlement)])
    counted = pack([value for pair in (new_items or {}).items() for value in pair])
    number = shard.number_settlement() if call is None else call
    args = [worker, items, counted, number, int(is_repeated)]
    _, late, holds, twins, is_known = await shard.call("settle", args)
    shard.note_holds(holds)
    if twins:
        shard.outrun |= dict(in_groups(unpack(twins), 2))
    return Answer(list(unpack(late)), not is_repeated or bool(is_known))
