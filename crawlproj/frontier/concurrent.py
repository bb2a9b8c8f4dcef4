"""Several calls side by side, none of which is left to itself when another fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def all_of(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all; the first error is raised once no call is under way any more."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done
