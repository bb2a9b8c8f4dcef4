"""Waits for what must be waited for, and for nothing else."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache
from inspect import isawaitable
from types import GeneratorType
from typing import Any

from scrapy.http import Request, Response
from twisted.internet.defer import Deferred

_PLAIN = (type(None), Response, Request)


def is_ready(result: Any) -> bool:
    """True for what a component has returned itself, False for the promise of it."""
    if isinstance(result, _PLAIN):
        return True
    kind: Any = type(result)
    # Of generators alone, some can be awaited and some cannot.
    return not isawaitable(result) if kind is GeneratorType else _is_no_promise(kind)


@lru_cache
def _is_no_promise(kind: type) -> bool:
    return not issubclass(kind, (Deferred, Awaitable))
