"""The addresses that the dashboard answers.

/                          the page
/events?crawl=NAME         how it stands, as server-sent events; without a name, all crawls
/metrics                   all crawls, for Prometheus
/healthz                   whether Redis answers
/api/crawls                all crawls, a line each
/api/status/NAME           what `scrapy status NAME --json` prints
/api/history/NAME?span=    hour, day or all
/api/hosts/NAME?q=&sort=   the first hundred of that order whose names contain q
/api/host/NAME?host=       robots.txt and pace of one
/api/dead/NAME?reason=&host=
/api/why/NAME?url=
/api/do/NAME/ACTION        POST, with the token: see actions.py
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from html import escape
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl

from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier.history import Span
from crawlproj.operate import crawl_metrics, status
from crawlproj.operate.dashboard.actions import Actions
from crawlproj.operate.dashboard.answers import Answers, NotThere
from crawlproj.operate.dashboard.guard import HEADERS, Guard
from crawlproj.operate.dashboard.host_search import ORDERS, Question
from crawlproj.operate.dashboard.polling import Channel, Channels, News
from crawlproj.urls import UrlError

MOST_VIEWERS = 200
KEEP_ALIVE_S = 15.0
"""Without news for so long, a viewer is sent a line that says nothing: a broken one shows."""
MOST_BODY_BYTES = 1 << 20
HEALTH_S = 2.0

_log = logging.getLogger(__name__)
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

Handler = Callable[[Request], Awaitable[Response]]


def static_files() -> dict[str, bytes]:
    """The page, by the names of its files."""
    folder = resources.files(__package__) / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name[0] != "."}


class Dashboard:
    """One server's state, and what it answers."""

    def __init__(self, answers: Answers, actions: Actions, guard: Guard) -> None:
        self._answers = answers
        self._actions = actions
        self._guard = guard
        self._files = static_files()
        self._channels = Channels(self._channel, MOST_VIEWERS)

    def app(self) -> Starlette:
        """Routes, each behind the guard."""
        gets: dict[str, Handler] = {
            "/": self._page,
            "/static/{name}": self._file,
            "/events": self._events,
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/login": self._login_page,
            "/api/crawls": self._crawls,
            "/api/status/{crawl}": self._status,
            "/api/history/{crawl}": self._history,
            "/api/hosts/{crawl}": self._hosts,
            "/api/host/{crawl}": self._host,
            "/api/dead/{crawl}": self._dead,
            "/api/why/{crawl}": self._why,
        }
        routes = [Route(path, self._guarded(handler)) for path, handler in gets.items()]
        routes.append(Route("/login", self._guarded(self._login), methods=["POST"]))
        routes.append(Route("/api/do/{crawl}/{action}", self._guarded(self._do), methods=["POST"]))
        return Starlette(routes=routes, exception_handlers={404: self._nowhere})

    def _guarded(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            refusal = self._guard.refusal(
                request.method, request.url.path, request.headers, request.cookies
            )
            if refusal is not None and request.url.path == "/" and refusal.status == 401:
                response = self._enter(request)
            elif refusal is not None:
                response = JSONResponse({"error": refusal.text}, refusal.status)
            else:
                response = await _explained(handler, request)
            response.headers.update(HEADERS)
            return response

        return answer

    async def _nowhere(self, request: Request, error: Exception) -> Response:
        """Who may not look is not told what there is, either."""

        async def nothing(request: Request) -> Response:
            return JSONResponse({"error": "there is nothing here"}, 404)

        return await self._guarded(nothing)(request)

    # Coming in

    def _enter(self, request: Request) -> Response:
        """With the token in the address: remember it, and take it out of there."""
        if self._guard.is_token(request.query_params.get("token", "")):
            return self._let_in(request)
        return self._html("login.html", 401)

    async def _login_page(self, request: Request) -> Response:
        return self._html("login.html", 200)

    async def _login(self, request: Request) -> Response:
        fields = dict(_form(await _body(request)))
        if self._guard.is_token(fields.get("token", "")):
            return self._let_in(request)
        return self._html("login.html", 401)

    def _let_in(self, request: Request) -> Response:
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self._guard.cookie,
            self._guard.token,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    # The page

    async def _page(self, request: Request) -> Response:
        if "token" in request.query_params:
            return RedirectResponse("/", 303)
        return self._html("index.html", 200)

    def _html(self, name: str, code: int) -> Response:
        # The page needs the token for what it does; a page elsewhere cannot read this one.
        token = escape(self._guard.token).encode() if name == "index.html" else b""
        page = self._files[name].replace(b"{{token}}", token)
        return Response(page, code, media_type="text/html")

    async def _file(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        kind = name.rpartition(".")[2]
        if name not in self._files or kind not in _TYPES or kind == "html":
            return JSONResponse({"error": "there is no such file"}, 404)
        return Response(self._files[name], media_type=_TYPES[kind])

    # What is watched

    def _channel(self, crawl: str) -> Channel:
        if not crawl:
            return Channel(self._answers.overview)
        return Channel(lambda: self._answers.live(crawl))

    async def _events(self, request: Request) -> Response:
        if self._channels.is_full:
            return JSONResponse({"error": "too many look already"}, 503)
        crawl = request.query_params.get("crawl", "")
        if crawl:
            await self._answers.known(crawl)
        return StreamingResponse(self._stream(crawl), media_type="text/event-stream")

    async def _stream(self, crawl: str) -> AsyncIterator[bytes]:
        seen = 0
        async with self._channels.watched(crawl) as channel:
            while True:
                news = await channel.next_news(seen, KEEP_ALIVE_S)
                yield _event(news) if news.number > seen else b": nothing new\n\n"
                seen = news.number

    # What is asked

    async def _health(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(HEALTH_S):
                await self._answers.ping()
        except (RedisError, OSError):
            return JSONResponse({"ok": False}, 503)
        return JSONResponse({"ok": True})

    async def _metrics(self, request: Request) -> Response:
        text = crawl_metrics.exposition(await self._answers.all_statuses())
        return Response(text, media_type=crawl_metrics.CONTENT_TYPE)

    async def _crawls(self, request: Request) -> Response:
        return JSONResponse(await self._answers.overview())

    async def _status(self, request: Request) -> Response:
        now = await self._answers.status(request.path_params["crawl"])
        return JSONResponse(status.as_json(now), 200 if now.epoch or now.seeds_waiting else 404)

    async def _crawl(self, request: Request) -> str:
        """The name of a crawl that is there; raises NotThere."""
        crawl: str = request.path_params["crawl"]
        await self._answers.known(crawl)
        return crawl

    async def _history(self, request: Request) -> Response:
        name = request.query_params.get("span", "hour").upper()
        if name not in Span.__members__:
            raise ConfigError("span: give hour, day or all")
        return JSONResponse(await self._answers.history(await self._crawl(request), Span[name]))

    async def _hosts(self, request: Request) -> Response:
        order = request.query_params.get("sort", "queued")
        if order not in ORDERS:
            raise ConfigError(f"sort: give one of {', '.join(ORDERS)}")
        text = request.query_params.get("q", "").strip().lower()[:200]
        question = Question(await self._crawl(request), text, order)
        return JSONResponse(await self._answers.hosts(question))

    async def _host(self, request: Request) -> Response:
        host = request.query_params.get("host", "")
        return JSONResponse(await self._answers.host(await self._crawl(request), host))

    async def _dead(self, request: Request) -> Response:
        reason, host = (request.query_params.get(name, "") for name in ("reason", "host"))
        return JSONResponse(await self._answers.letters(await self._crawl(request), reason, host))

    async def _why(self, request: Request) -> Response:
        url = request.query_params.get("url", "")
        if not url:
            raise ConfigError("url: give one")
        return JSONResponse(await self._answers.why(await self._crawl(request), url))

    # What is done

    async def _do(self, request: Request) -> Response:
        crawl, action = request.path_params["crawl"], request.path_params["action"]
        if action not in self._actions:
            return JSONResponse({"error": "there is no such action"}, 404)
        try:
            given = json.loads(await _body(request) or b"{}")
        except (ValueError, RecursionError):
            raise ConfigError("what was sent is not JSON, or too deep") from None
        if not isinstance(given, dict):
            raise ConfigError("what was sent is no JSON object")
        done = await self._actions.do(action, crawl, given)
        self._answers.forget_status(crawl)
        self._channels.read_now(crawl, "")
        return JSONResponse({"done": done.is_done, "text": done.text}, 200 if done.is_done else 409)


async def _explained(handler: Handler, request: Request) -> Response:
    """What is wrong, in a line."""
    try:
        return await handler(request)
    except (ConfigError, UrlError) as error:
        return JSONResponse({"error": str(error)}, 400)
    except NotThere as error:
        return JSONResponse({"error": str(error)}, 404)
    except (CrawlError, RedisError, OSError) as error:
        return JSONResponse({"error": " ".join(str(error).split())}, 503)
    except ClientDisconnect:
        return Response(status_code=400)  # which nobody reads
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        # What nobody has thought of: told in one line, since anybody may send it again and again.
        _log.warning("%s %r: %.200r", request.method, request.url.path, error)
        return JSONResponse({"error": "what was sent cannot be used"}, 400)


async def _body(request: Request) -> bytes:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise ConfigError(f"what was sent is longer than {MOST_BODY_BYTES:,} bytes")
    return body


def _form(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(body.decode(errors="replace"), max_num_fields=10)


def _event(news: News) -> bytes:
    told: Mapping[str, Any] = {
        "at_s": round(news.read_at_s, 1) or None,
        "value": news.value,
        "error": news.error,
        "error_since_s": news.error_since_s or None,
    }
    return b"data: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"
