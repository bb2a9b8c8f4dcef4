"""Scrapy's three verbs → the frontier. No Redis command stands here.

`enqueue_request` collects, `next_request` takes what has been leased ahead, and a request that
has ended is settled; the exchange with Redis happens in the background, in worker/exchange.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError
from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import load_object
from scrapy_redis import scheduler as scrapy_redis_scheduler

from crawlproj.config import Config, asked_for, checked, crawl_name, names_connections, of_others
from crawlproj.discover.discovery import Discovery
from crawlproj.discover.links import MAX_SHOWN
from crawlproj.discover.patterns import Evidence
from crawlproj.discover.quarantine import Quarantine
from crawlproj.discover.ranking import Novelty, strategy
from crawlproj.discover.rules import Rules
from crawlproj.discover.seeds import LOOK_EVERY_S, Intake, parse_seed
from crawlproj.discover.sitemap_reading import SitemapReader
from crawlproj.dupefilter import SeenFilter
from crawlproj.engine.watch import EngineWatch
from crawlproj.errors import CrawlError
from crawlproj.fetch.cookies import (
    NOT_SHARED,
    CookiesMiddleware,
    SharedCookies,
    cookie_advice,
    wants_session,
)
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.levels import level
from crawlproj.frontier.limits import ADDRESS, HOST
from crawlproj.frontier.messages import Kind, Lease, Push, Settlement, State
from crawlproj.frontier.pacing import Overrides
from crawlproj.frontier.proxies import Proxies
from crawlproj.frontier.records import (
    LEASE,
    RecordError,
    encode_changed,
    encode_request,
    glance,
)
from crawlproj.frontier.replication import Replication
from crawlproj.output.reports import Reports
from crawlproj.plural import counted
from crawlproj.politeness.groups import AddressGroups
from crawlproj.politeness.holds import Holds
from crawlproj.politeness.permission import Permission
from crawlproj.server import connection
from crawlproj.urls import UrlError, normalise, param_pattern
from crawlproj.worker import identity, join, replan
from crawlproj.worker.admission import Admission
from crawlproj.worker.exchange import Hooks, Worker
from crawlproj.worker.finish import Ending
from crawlproj.worker.idle import Idle
from crawlproj.worker.lobby import Lobby, check_seed
from crawlproj.worker.outcome import Held, Patience
from crawlproj.worker.pulse import Pulse
from crawlproj.worker.tracking import Notes

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)


class Scheduler(scrapy_redis_scheduler.Scheduler):  # type: ignore[misc]
    """`SCHEDULER` of a project: scrapy-redis's settings, our frontier."""

    df: SeenFilter
    config: Config
    frontier: Frontier
    worker: Worker
    discovery: Discovery
    notes: Notes
    permission: Permission | None
    cookies: SharedCookies | None
    holds: Holds
    on_handed_in: list[Callable[[], Awaitable[None]]]
    """Called when all is settled, while the feeds and the frontier are still open."""
    _pulse: Pulse
    _groups: AddressGroups | None
    _intake: asyncio.Task[None] | None
    _waiting: asyncio.Task[None] | None
    _obeyed: State
    _rules: Rules
    _lobby: Lobby
    _early: list[Request]
    """What the spider came up with before there was a crawl to work at."""
    _when_joined: list[Callable[[], None]]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        resolved = connection.resolve(crawler.settings)
        if resolved.notice:
            logger.warning("%s", resolved.notice)
        try:
            self: Scheduler = super().from_crawler(crawler)
        except RedisError:
            self = cls(server=None)  # open() says what is wrong, in one line
            self.stats = crawler.stats
        self.config = Config.from_settings(crawler.settings)
        if others := of_others(crawler.settings):
            logger.info("Left alone as settings of others: %s", ", ".join(others))
        self._crawler = crawler
        self._resolved = resolved
        self._watch = EngineWatch(crawler)
        self._intake = self._waiting = None
        self._obeyed = "running"
        self._early = []
        self._when_joined = []
        self.on_handed_in = []
        return self

    # What others may ask

    @property
    def is_open(self) -> bool:
        """True once the crawl has been joined."""
        return self._intake is not None

    @property
    def address(self) -> tuple[str, dict[str, Any]]:
        """The URL and the parameters of the Redis in use."""
        return self._resolved.url, self._resolved.params

    @property
    def seed_names(self) -> set[str]:
        """Hosts or domains that seeds brought into scope."""
        return self.worker.scope if self.is_open else set()

    # Opening and closing

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    async def _open(self, spider: Spider) -> None:
        self.spider = spider
        self._idle = Idle(self._crawler, lambda: self._has_more)
        try:
            client = await connection.connect(self._resolved.url, self._resolved.params)
            crawl = crawl_name(self._crawler.settings, spider)
            name = identity.marked(self.config.worker_id or identity.new_name())
            one_in = self.config.seen_audit_one_in
            config = self.config
            replication = Replication(client, config.wait_replicas, config.wait_timeout_s)
            implied = not names_connections(self._crawler.settings)
            overrides = Overrides(config.overrides, one_connection=implied)
            self.frontier = Frontier(
                client, crawl, name, one_in, replication=replication, overrides=overrides
            )
            join.say_what_is_not_heeded(self._crawler.settings, crawl)
            if not await self._join(brings_seed=bool(self.config.seeds)):
                self._lobby = self._make_lobby()
                self._waiting = asyncio.create_task(self._wait_for_seeds())
        except CrawlError as error:
            logger.error("%s", error)
            # Not raised from here: the engine cannot close cleanly what it has not opened yet.
            self._crawler.signals.connect(self._decline, signals.spider_opened)

    async def _join(self, *, brings_seed: bool, seed_found_at: str = "") -> bool:
        """Begin, join or resume the crawl and go to work; False if there is nothing to work at."""
        joined = await join.join(
            self.frontier,
            self.config,
            asked_for(self._crawler.settings),
            spider=self.spider.name,
            brings_seed=brings_seed,
            seed_found_at=seed_found_at,
        )
        if joined is None:
            return False
        self.config = joined
        await identity.make_way(self.frontier)
        self._build()
        self.frontier.on_plan = self._hear_plan
        self.notes.listen(self._crawler, self._watch)
        self._watch.quicken()
        is_given = bool(self._crawler.settings.getpriority("RETRY_TIMES"))
        self._watch.limit_retries(self.frontier.limits.max_attempts - 1, is_given=is_given)
        for callback in self._when_joined:
            callback()
        await self.worker.start()
        self._intake = asyncio.create_task(self._take_in.run())
        early, self._early = self._early, []
        for request in early:
            self.enqueue_request(request)
        return True

    def when_joined(self, callback: Callable[[], None]) -> None:
        """Call back once this worker has a crawl to work at: now, if it has."""
        if self.is_open:
            callback()
        else:
            self._when_joined.append(callback)

    def _make_lobby(self) -> Lobby:
        settings, spider, crawl = self._crawler.settings, self.spider, self.frontier.crawl
        is_patient = self.config.stay or join.waits_for_ever(spider) or not self._idle_s
        return Lobby(
            self.frontier,
            join.seed_list(self.frontier.client, settings, spider, crawl),
            redis=connection.mask(self._resolved.url),
            folder=Path(self.config.output) / crawl,
            check=_seed_check(spider),
            brings_own=lambda: bool(self._early),
            may_bring=lambda: self._watch.is_starting,
            lease_timeout_s=self.config.lease_timeout_s,
            idle=self._idle,
            patience_s=float("inf") if is_patient else self._idle_s,
        )

    async def _wait_for_seeds(self) -> None:
        try:
            while not self.is_open:
                epoch = self.frontier.shards[0].epoch
                found = await self._lobby.wait()
                if found in ("stopped", "nothing"):
                    reason = "stopped" if found == "stopped" else self._idle.reason
                    self._watch.close(reason or "finished")
                    return
                try:
                    at = "" if found == "own seed" else epoch
                    await self._join(brings_seed=found != "crawl", seed_found_at=at)
                except connection.OUTAGE as error:
                    logger.warning("Redis does not answer (%s); waiting for it", error)
                    await asyncio.sleep(LOOK_EVERY_S)
        except Exception as error:
            is_known = isinstance(error, CrawlError)
            logger.error("%s", error, exc_info=None if is_known else error)
            self._watch.close("could not start")

    def _hear_plan(self, plan: dict[str, Any]) -> None:
        """Go by what has been changed of the plan while the crawl goes on."""
        limits = self.frontier.limits
        retry_delay_ms = int(self.config.retry_delay_s * 1000)
        self._patience = Patience(limits.delay_ms, retry_delay_ms, limits.max_attempts)
        depth = checked("depth", plan["rules"].get("depth"))
        if depth != self._rules.depth:
            self._rules = replace(self._rules, depth=depth)
            self.discovery.judge_by(self._rules)
        logger.info("The crawl goes by %s", replan.as_text(replan.changeable(plan, limits)))

    @property
    def _idle_s(self) -> float:
        """How long scrapy-redis's settings let a spider be idle before it closes."""
        return float(max(self.idle_before_close, getattr(self.spider, "max_idle_time", 0)))

    def _decline(self) -> None:
        raise CloseSpider("could not start")

    def _build(self) -> None:
        """Put the worker's parts together, by the crawl's plan."""
        config, spider, limits = self.config, self.spider, self.frontier.limits
        self._rules = _rules(config)
        ranking = strategy(config.strategy, config.weights)
        self._patience = Patience(
            limits.delay_ms, int(config.retry_delay_s * 1000), limits.max_attempts
        )
        name = identity.plain(self.frontier.worker)
        self._reports = Reports(self._crawler, name, config.reports)
        self.cookies = SharedCookies(self.frontier) if config.cookies else None
        self._cookie_advice = cookie_advice(self._crawler.settings)
        if self.cookies and not self._watch.has_downloader_middleware(CookiesMiddleware):
            logger.warning(NOT_SHARED)
        self.holds = Holds(by_group=limits.group != HOST)
        self.worker = Worker(
            self.frontier,
            self._hooks(),
            prefetch=self._crawler.settings.getint("CONCURRENT_REQUESTS"),
            lease_timeout_s=config.lease_timeout_s,
            tells_all=isinstance(ranking, Novelty),
            backlog=config.backlog,
            watermark=config.watermark,
        )
        self._pulse = Pulse(self.worker.tally, config.lease_timeout_s)
        self.notes = Notes(lambda held: self.worker.end(held, held.since))
        evidence = Evidence(config.patterns, config.pattern_pages, config.trap_queries)
        self._quarantine = Quarantine(self.frontier, evidence)
        drop = param_pattern(config.drop_params)
        self.discovery = Discovery(
            self.worker,
            self._rules,
            ranking,
            self._introduce,
            quarantine=self._quarantine,
            drop=drop,
            keeps_referer=config.referer,
        )
        self._sitemaps = SitemapReader(self.discovery)
        self.permission = self._permission() if config.robots else None
        if config.sitemaps and self.permission is None:
            logger.warning("CRAWL_SITEMAPS: no robots.txt is asked for, so none names a sitemap")
        self._proxies = Proxies(config.proxies)
        self._admission = Admission(
            spider, self.holds, self.permission, self._quarantine, self._sitemaps, self._proxies
        )
        self._groups = AddressGroups(self.worker.end) if limits.group == ADDRESS else None
        self.df = SeenFilter.from_spider(spider)
        self.df.attach(self.worker, join.Identity.of(config))
        settings, crawl = self._crawler.settings, self.frontier.crawl
        seeds = join.seed_list(self.frontier.client, settings, spider, crawl)
        self._ending = Ending(
            self.frontier,
            seeds,
            self._idle,
            stay=config.stay or join.waits_for_ever(spider),
            idle_s=self._idle_s,
        )
        self._take_in = Intake(
            seeds,
            getattr(spider, "make_request_from_data", parse_seed),
            self._seed_push,
            self.worker.push_now,
            lambda: self.worker.state in ("running", "paused", "limit"),
        )

    def _permission(self) -> Permission | None:
        settings = self._crawler.settings
        if not settings.getbool("ROBOTSTXT_OBEY"):
            return None
        return Permission(
            self.frontier,
            self.worker.push,
            user_agent=settings.get("ROBOTSTXT_USER_AGENT") or settings["USER_AGENT"],
            max_attempts=self.frontier.limits.max_attempts,
            retry_delay_s=self.config.retry_delay_s,
            longest_pause_s=self.config.longest_pause_s,
            on_sitemaps=self._sitemaps.offer if self.config.sitemaps else None,
        )

    async def _close(self) -> None:
        if self._intake is None:
            await self._leave_lobby()
            return
        self._intake.cancel()
        if self._groups:
            await self._groups.close()
        if self.permission is not None:
            await self.permission.close()
        try:
            await self.worker.close()
            self._count_exchange()
            for handed_in in self.on_handed_in:
                await handed_in()
            if self.worker.state == "stopping":
                await self.frontier.finish()
        except (CrawlError, RedisError) as error:
            logger.warning("This worker could not take its leave: %s", error)
        finally:
            await self.frontier.close()

    async def _leave_lobby(self) -> None:
        if self._waiting is None:
            return
        self._waiting.cancel()
        with suppress(CrawlError, RedisError):
            await self._lobby.leave()
        await self.frontier.close()

    # Scrapy's verbs

    def enqueue_request(self, request: Request) -> bool:
        if not self.is_open:
            self._early.append(request)
            return True
        try:
            return self._enqueue(request)
        except UrlError as error:
            self._refuse(request, error.reason)
        except RecordError as error:
            logger.error("Not stored: %s", error)
            self._refuse(request, "unstorable")
        return False

    def _enqueue(self, request: Request) -> bool:
        if self._cookie_advice and wants_session(request):
            logger.warning(self._cookie_advice, request.url[:MAX_SHOWN])
            self._cookie_advice = ""
        found = self.df.address(request)
        sent_on = self.notes.sent_on(request)
        if sent_on and self.notes.is_sent_back(request, sent_on):
            sent_on.retry_entry = self._encode_again(request, found.host, sent_on)
            return True
        kind = _kind(request, sent_on)
        if kind == Kind.LINK and self.df.request_seen(request):
            self.df.log(request, self.spider)
            return False
        self._introduce(found.host)
        entry = self._encode(request, found.host, sent_on)
        rank = self.frontier.seed_level if kind == Kind.SEED else level
        self.worker.push(Push(kind, found.host, rank(request.priority), entry, found.key))
        self.stats.inc_value("scheduler/enqueued/redis")
        return True

    def next_request(self) -> Request | None:
        if not self.is_open or (self._groups and self._groups.is_full):
            return None
        while lease := self.worker.take():
            held = Held(lease, self.worker.now)
            if self._groups and self._groups.seek(held):
                continue
            request = self._admission.request_of(held)
            if request is not None:
                self.notes.begin(request, held)
                self.stats.inc_value("scheduler/dequeued/redis")
                return request
            self.worker.end(held, held.since)
        return None

    def has_pending_requests(self) -> bool:
        """True until the crawl is over: then the spider is closed from here, with its reason."""
        return True

    def __len__(self) -> int:
        return self.worker.backlog if self.is_open else len(self._early)

    def __bool__(self) -> bool:
        """Not false for being empty, as its length would have it."""
        return True

    def _encode(self, request: Request, host: str, sent_on: Held | None = None) -> bytes:
        most, proxies = self.config.max_record_bytes, self._proxies
        try:
            return encode_request(request, host, self.spider, most, proxies)
        except RecordError as error:
            if sent_on is None:
                raise
            logger.debug("Sent on without what a middleware has added: %s", error)
            own = sent_on.lease.entry
            return encode_changed(request, host, self.spider, own, max_bytes=most, proxies=proxies)

    def _encode_again(self, request: Request, host: str, held: Held) -> bytes:
        """The entry of a leased request that is to be tried again, with the attempts so far."""
        own = held.lease.entry
        try:
            return own[:1] + self._encode(request, host, held)[1:]
        except RecordError as error:
            logger.debug("Tried again as it was before: %s", error)
            return own

    def _refuse(self, request: Request, reason: str) -> None:
        key = f"{reason} {request.url[:MAX_SHOWN]}"
        self.worker.push(Push(Kind.FILTERED, "", 0, reason.encode(), key))

    def _introduce(self, host: str) -> None:
        if self.permission is not None:
            self.permission.introduce(host)

    def _seed_push(self, request: Request) -> Push:
        found = self.df.address(request)
        self._introduce(found.host)
        kind = Kind.UNFILTERED if request.dont_filter else Kind.SEED
        entry = self._encode(request, found.host)
        rank = self.frontier.seed_level(request.priority)
        return Push(kind, found.host, rank, entry, found.key)

    # What the worker asks of its surroundings

    def _hooks(self) -> Hooks:
        return Hooks(
            wake=self._watch.wake,
            flush_rows=self._reports.flush_rows,
            new_items=self._reports.new_items,
            verdict=self._verdict,
            on_state=self._obey,
            on_fatal=self._give_up,
            on_lost=self._tell_of_lost,
            about=self._about,
            prepare=self._prepare,
            on_holds=self.holds.hear,
            on_unsure=self._break_off,
            share=self.cookies.share if self.cookies else None,
            scope_names=self._scope_names,
            awaits_seeds=self._awaits_seeds,
        )

    def _awaits_seeds(self) -> bool:
        """Whether more seeds are about to come, for which a page budget has to last."""
        if not self.frontier.limits.has_page_budget:
            return False
        has_own = getattr(self.spider, "starts_with_seeds", False) and self._watch.is_starting
        return has_own or self._take_in.seeds_wait

    def _scope_names(self, seed: Push) -> set[str]:
        about = glance(seed.host, seed.entry)
        return self._rules.scope_names(normalise(about.url), redirected=about.redirected)

    async def _prepare(self, leases: list[Lease]) -> None:
        await self._quarantine.refresh()
        if self.permission is not None:
            await self.permission.learn(leases)
        if self.cookies is not None:
            await self.cookies.learn(leases)

    async def _tell_of_lost(self, dead: list[tuple[str, float, bytes]]) -> None:
        """Tell of URLs that were lost with their workers too often."""
        await self._reports.lost(dead)
        if self.permission is not None:
            await self.permission.lost(dead)

    async def _verdict(self, held: Held) -> tuple[int, Settlement]:
        settlement = self._patience.settlement(held)
        if settlement.verdict == "dead":
            await self._reports.dead(held, settlement.reason)
        return held.lease.shard, settlement

    @property
    def _has_more(self) -> bool:
        """What the spider starts with, and what is on its way: either goes on with the crawl, and
        a seed opens one again that others have ended; so does what is added when it is told."""
        return self._watch.is_starting or len(self) > 0

    async def _obey(self, state: State) -> None:
        if state == "paused" != self._obeyed:
            crawl = self.frontier.crawl
            logger.info("The crawl is paused: scrapy resume %s lets its workers go on", crawl)
        self._obeyed = state
        if state in ("running", "finished") and self._has_more:
            self._ending.busy()
            return
        if state in ("running", "limit"):
            if not self.worker.is_idle:
                self._ending.busy()
                return
            state = await self._ending.look(state)
        elif state == "finished":
            counts = await self.frontier.counts()
            state = state if self._idle.may_end(counts.get("discovered", 0)) else "running"
        if state == "running" and self._has_more:  # handlers of spider_idle have added it
            self.worker.go_on()
        elif state == "stopping":
            await self.worker.give_back()
            if self.worker.is_idle or self.worker.is_stuck:
                self._watch.close("stopped")
        elif state in ("finished", "stopped") or self._idle.reason:
            self._watch.close(self._idle.reason or state)

    def _break_off(self) -> None:
        if broken_off := self._watch.cut():
            logger.warning(
                "%s broken off: Redis has been away for so long that others may soon take over "
                "what this worker holds",
                counted(broken_off, "request"),
            )

    def _give_up(self, error: Exception) -> None:
        is_known = isinstance(error, CrawlError)
        logger.error("This worker stops: %s", error, exc_info=None if is_known else error)
        self._watch.close("failed")

    def _count_exchange(self) -> None:
        """What the exchange with the frontier has cost so far, in the stats."""
        shards = self.frontier.shards
        for name in ("calls", "bytes_sent", "bytes_received"):
            self.stats.set_value(f"frontier/{name}", sum(getattr(one, name) for one in shards))
        self.stats.set_value("frontier/waited_s", round(self.worker.supply.waited_s, 3))
        self.stats.set_value("frontier/prefetch", self.worker.supply.depth)

    def _about(self) -> dict[str, Any]:
        self._count_exchange()
        return self._pulse.told(self.worker.links_without_room)


def is_in_use(settings: BaseSettings) -> bool:
    """Whether a project has our scheduler, or one derived from it."""
    return issubclass(load_object(settings["SCHEDULER"]), Scheduler)


def _seed_check(spider: Spider) -> Callable[[bytes], Any] | None:
    """What tells a seed that can be used from one that cannot, where that is known: seeds may be
    anything to a spider that makes requests of them itself."""
    if hasattr(spider, "make_request_from_data"):
        return getattr(spider, "check_seed", None)
    return check_seed


def _rules(config: Config) -> Rules:
    return Rules(
        config.scope,
        config.allow,
        config.deny,
        config.depth,
        traps=config.traps,
        trap_depth=config.trap_depth,
        trap_repeats=config.trap_repeats,
        trap_params=config.trap_params,
        media=config.media,
    )


def _kind(request: Request, sent_on: Held | None) -> Kind:
    # What a callback makes of a seed often takes over its meta, and is no seed for that.
    is_own = LEASE not in request.meta or sent_on is not None
    if is_own and request.meta.get("is_start_request"):
        return Kind.SEED
    return Kind.UNFILTERED if request.dont_filter else Kind.LINK
