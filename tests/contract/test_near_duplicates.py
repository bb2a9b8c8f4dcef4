"""What a worker asks about near-duplicates, on a real frontier, and what becomes of the answers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawlproj.discover.near_duplicates import NearDuplicates
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.meta_keys import VISIT
from crawlproj.frontier.plan import Plan
from crawlproj.items import PageItem
from crawlproj.server.connection import connect
from crawlproj.urls import normalise
from tests.servers.redis import RedisServer


@pytest.fixture
async def frontier(redis_server: RedisServer) -> AsyncIterator[Frontier]:
    client: Any = await connect(redis_server.url)
    one = Frontier(client, "c", "w")
    await one.open(Plan(seen_capacity=10_000), "run")
    yield one
    await client.aclose()


def text(number: int) -> bytes:
    words = random.Random(number).choices([f"word{n}" for n in range(2000)], k=200)
    return f"<p>{' '.join(words)}</p>".encode()


async def ask(near: NearDuplicates, url: str, body: bytes, **meta: Any) -> str:
    """What the row of a page says that it is a copy of."""
    response = Response(url, body=body, request=Request(url, meta=meta))
    row = PageItem(url=url, status=200, fetched_at="", worker="w")
    near.ask(normalise(url), row, response, "utf-8")
    marked: PageItem = await near.mark(row)
    return marked.near_duplicate_of


async def test_a_near_copy_that_is_revisited_is_weighed_once(frontier: Frontier) -> None:
    weighed: list[tuple[str, bool]] = []
    near = NearDuplicates(frontier, lambda url, is_copy: weighed.append((str(url), is_copy)))
    first, copy = "http://a.test/doc", "http://a.test/mirror/doc"
    assert await ask(near, first, text(1)) == ""
    assert await ask(near, copy, text(1)) == first
    for _ in range(3):
        assert await ask(near, copy, text(1), **{VISIT: (0, "")}) == first
    assert weighed == [(first, False), (copy, True)]
