"""The way of Scrapy's Requests into the frontier: from spiders, middlewares and seed lists.

Links take another (discover/discovery.py), on which no Request is made of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy import Request, Spider

from crawlproj.fetch.cookies import wants_session
from crawlproj.frontier import seen_keys
from crawlproj.frontier.messages import Kind, Push
from crawlproj.frontier.meta_keys import LEASE, VISIT
from crawlproj.frontier.outcomes import Attempt, Retry
from crawlproj.frontier.proxies import Proxies
from crawlproj.frontier.records import RecordError, encode_changed, encode_request, encode_visited
from crawlproj.frontier.request_identity import carry_identity
from crawlproj.urls import MAX_SHOWN, UrlError
from crawlproj.worker.exchange import Worker
from crawlproj.worker.tracking import Tracking

if TYPE_CHECKING:
    from crawlproj.worker.seen_filter import SeenFilter

logger = logging.getLogger(__name__)


class Requests:
    """Makes entries of requests and collects them for the next push."""

    def __init__(
        self,
        spider: Spider,
        worker: Worker,
        tracking: Tracking,
        seen: SeenFilter,
        *,
        proxies: Proxies,
        queue_robots_txt: Callable[[str], None],
        max_record_bytes: int,
        cookie_advice: str,
    ) -> None:
        self._spider = spider
        self._worker = worker
        self._tracking = tracking
        self._seen = seen
        self._proxies = proxies
        self._queue_robots_txt = queue_robots_txt
        self._max_record_bytes = max_record_bytes
        self._cookie_advice = cookie_advice

    def enqueue(self, request: Request) -> bool:
        """Take a request in; False if it was seen before or cannot be stored."""
        try:
            return self._enqueue(request)
        except UrlError as error:
            self._refuse(request, error.reason)
        except RecordError as error:
            logger.error("Not stored: %s", error)
            self._refuse(request, "unstorable")
        return False

    def seed(self, request: Request) -> Push:
        """A request that somebody has pushed as a seed; raises UrlError or RecordError."""
        found = self._seen.key_of(request)
        self._queue_robots_txt(found.host)
        kind = Kind.UNFILTERED if request.dont_filter else Kind.SEED
        entry = self._encode(request, found.host)
        return Push(kind, found.host, self._level(request, is_seed=True), entry, found.key)

    def _enqueue(self, request: Request) -> bool:
        self._advise_on_cookies(request)
        found = self._seen.key_of(request)
        sent_on = self._tracking.sent_on(request)
        if sent_on and self._tracking.is_sent_back(request, sent_on):
            sent_on.decide(Retry(self._encode_again(request, found.host, sent_on)))
            return True
        kind = _kind(request, sent_on)
        if kind == Kind.LINK and self._worker.count_if_seen(found.host, found.key):
            self._seen.log(request, self._spider)
            return False
        self._queue_robots_txt(found.host)
        entry = self._encode(request, found.host, sent_on)
        rank = self._level(request, is_seed=_is_seed(request, sent_on))
        self._worker.push(Push(kind, found.host, rank, entry, found.key))
        self._spider.crawler.stats.inc_value("scheduler/enqueued/redis")
        return True

    def _level(self, request: Request, *, is_seed: bool) -> float:
        return self._worker.frontier.plan.level_of(request.priority, is_seed=is_seed)

    def _advise_on_cookies(self, request: Request) -> None:
        """Say once what a spider that wants a session has to set."""
        if self._cookie_advice and wants_session(request):
            logger.warning(self._cookie_advice, request.url[:MAX_SHOWN])
            self._cookie_advice = ""

    def _encode(self, request: Request, host: str, sent_on: Attempt | None = None) -> bytes:
        most, proxies = self._max_record_bytes, self._proxies
        try:
            return encode_request(request, host, self._spider, most, proxies)
        except RecordError as error:
            if sent_on is None:
                raise
            logger.debug("Sent on without what a middleware has added: %s", error)
            own = sent_on.lease.entry
            return encode_changed(request, host, self._spider, own, max_bytes=most, proxies=proxies)

    def _encode_again(self, request: Request, host: str, attempt: Attempt) -> bytes:
        """The entry of a leased request that is to be tried again, with the attempts so far."""
        own = attempt.lease.entry
        try:
            entry = carry_identity(own, self._encode(request, host, attempt))
            if visited := request.meta.get(VISIT):
                entry = encode_visited(entry, *visited)
            return own[:1] + entry[1:]
        except RecordError as error:
            logger.debug("Tried again as it was before: %s", error)
            return own

    def _refuse(self, request: Request, reason: str) -> None:
        key = seen_keys.unusable(reason, request.url)
        self._worker.push(Push(Kind.FILTERED, "", 0, reason.encode(), key))


def _is_seed(request: Request, sent_on: Attempt | None) -> bool:
    # A request that a callback makes of a seed often has the seed's meta; it is no seed.
    is_own = LEASE not in request.meta or sent_on is not None
    return is_own and bool(request.meta.get("is_start_request"))


def _kind(request: Request, sent_on: Attempt | None) -> Kind:
    # Every worker starts with the same seeds, and one is enough, whatever their dont_filter says.
    # It counts for what they are redirected to: a site may lead back once it has set its cookie.
    if _is_seed(request, sent_on) and not (sent_on and request.dont_filter):
        return Kind.SEED
    return Kind.UNFILTERED if request.dont_filter else Kind.LINK
