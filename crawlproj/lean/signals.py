"""Scrapy's signals: nothing is done for what nobody hears, and plain receivers get no task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from pydispatch.robustapply import robustApply  # type: ignore[import-untyped]
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.python import global_object_name

from crawlproj.lean.waiting import is_ready

logger = logging.getLogger("scrapy.utils.signal")

_ANY = id(dispatcher.Any)


class Signals(SignalManager):
    """What `crawler.signals` becomes."""

    def send_catch_log(self, signal: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        if not _is_heard(kwargs.setdefault("sender", self.sender), signal):
            return []
        return super().send_catch_log(signal, **kwargs)

    async def send_catch_log_async(self, signal: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        sender = kwargs.setdefault("sender", self.sender)
        if not _is_heard(sender, signal):
            return []
        unlogged = kwargs.pop("dont_log", ())
        unlogged = tuple(unlogged) if isinstance(unlogged, Sequence) else (unlogged,)
        receivers = list(dispatcher.liveReceivers(dispatcher.getAllReceivers(sender, signal)))
        results: dict[int, Any] = {}
        waiting: dict[int, Awaitable[Any]] = {}
        for number, receiver in enumerate(receivers):
            try:
                result = robustApply(receiver, signal=signal, **kwargs)
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
                _complain(receiver, result, kwargs.get("spider"))
        return replies


def _is_heard(sender: Any, signal: Any) -> bool:
    for name in (id(sender), _ANY):
        table = dispatcher.connections.get(name)
        if table and (signal in table or dispatcher.Any in table):
            return True
    return False


def _complain(receiver: Any, error: Exception, spider: Any) -> None:
    logger.error(
        "Error caught on signal handler: %(receiver)s",
        {"receiver": receiver},
        exc_info=error,
        extra={"spider": spider},
    )
