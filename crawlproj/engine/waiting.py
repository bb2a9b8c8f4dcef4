"""Waits for what must be waited for, and for nothing else."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any

from scrapy.http import Request, Response
from twisted.internet.defer import Deferred

_PLAIN = (type(None), Response, Request)


def is_ready(result: Any) -> bool:
    """True for what a component has returned itself, False for the promise of it."""
    return isinstance(result, _PLAIN) or not (isinstance(result, Deferred) or isawaitable(result))
