"""Scrapy's signals, sent for less: a signal without receivers costs nothing, plain receivers get no
task, and which arguments a receiver takes is looked up once."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from pydispatch.robustapply import robustApply  # type: ignore[import-untyped]
from scrapy.exceptions import StopDownload
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from crawlproj.engine.waiting import is_ready

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger("scrapy.utils.signal")

_ANY = id(dispatcher.Any)
_NOBODY: dict[Any, Any] = {}
_TAKES_ANYTHING = inspect.CO_VARKEYWORDS


class Signals(SignalManager):
    """What `crawler.signals` becomes."""

    def send_catch_log(self, signal: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        receivers = _receivers(kwargs.setdefault("sender", self.sender), signal)
        if not receivers:
            return []
        unlogged = (*_unlogged(kwargs), StopDownload)
        kwargs["signal"] = signal
        return [(receiver, _result(receiver, kwargs, unlogged)) for receiver in receivers]

    async def send_catch_log_async(self, signal: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        receivers = _receivers(kwargs.setdefault("sender", self.sender), signal)
        if not receivers:
            return []
        unlogged = _unlogged(kwargs)
        kwargs["signal"] = signal
        results: dict[int, Any] = {}
        waiting: dict[int, Awaitable[Any]] = {}
        for number, receiver in enumerate(receivers):
            try:
                result = _call(receiver, kwargs)
            except Exception as error:
                results[number] = error
                continue
            if is_ready(result):
                results[number] = result
            else:
                waiting[number] = ensure_awaitable(result, _warn=global_object_name(receiver))
        if waiting:
            ended = await asyncio.gather(*waiting.values(), return_exceptions=True)
            results.update(zip(waiting, ended, strict=True))
        replies = [(receiver, results[number]) for number, receiver in enumerate(receivers)]
        for receiver, result in replies:
            if isinstance(result, Exception) and not isinstance(result, unlogged):
                _log_error(receiver, result, kwargs.get("spider"))
        return replies


def is_heard(crawler: Crawler, signal: Any) -> bool:
    """Whether anybody listens to a signal."""
    return bool(_receivers(crawler.signals.sender, signal))


def _receivers(sender: Any, signal: Any) -> list[Callable[..., Any]]:
    """In the order of pydispatch, which also looks for who hears any signal or any sender."""
    table = dispatcher.connections.get(id(sender), _NOBODY)
    if dispatcher.Any in table or _ANY in dispatcher.connections:
        known = dispatcher.getAllReceivers(sender, signal)
    else:
        known = table.get(signal, ())
    found = []
    for one in known:
        receiver = one() if isinstance(one, dispatcher.WEAKREF_TYPES) else one
        if receiver is not None:
            found.append(receiver)
    return found


_taken: dict[CodeType, frozenset[str]] = {}


def _call(receiver: Callable[..., Any], named: dict[str, Any]) -> Any:
    """As pydispatch's robustApply: with as much of this as the receiver has parameters for."""
    code = getattr(receiver, "__code__", None)
    if code is None:
        return robustApply(receiver, **named)
    if code.co_flags & _TAKES_ANYTHING:
        return receiver(**named)
    taken = _taken.get(code)
    if taken is None:
        taken = _taken[code] = frozenset(code.co_varnames[: code.co_argcount])
    return receiver(**{name: named[name] for name in taken if name in named})


def _result(receiver: Callable[..., Any], kwargs: dict[str, Any], unlogged: tuple[Any, ...]) -> Any:
    """What the receiver replies, or how it failed."""
    try:
        result = _call(receiver, kwargs)
    except Exception as error:
        if not isinstance(error, unlogged):
            _log_error(receiver, error, kwargs.get("spider"))
        return Failure()  # type: ignore[no-untyped-call]
    if isinstance(result, Deferred):
        logger.error(
            "Cannot return deferreds from signal handler: %(receiver)s",
            {"receiver": receiver},
            extra={"spider": kwargs.get("spider")},
        )
    return result


def _unlogged(kwargs: dict[str, Any]) -> tuple[Any, ...]:
    if "dont_log" not in kwargs:
        return ()
    unlogged = kwargs.pop("dont_log")
    return tuple(unlogged) if isinstance(unlogged, Sequence) else (unlogged,)


def _log_error(receiver: Any, error: Exception, spider: Any) -> None:
    logger.error(
        "Error caught on signal handler: %(receiver)s",
        {"receiver": receiver},
        exc_info=error,
        extra={"spider": spider},
    )
