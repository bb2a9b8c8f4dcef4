"""Listens for the dashboard, and says where."""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import NamedTuple

import uvicorn
from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.operate.dashboard.actions import Actions
from crawlproj.operate.dashboard.answers import Answers
from crawlproj.operate.dashboard.app import Dashboard
from crawlproj.operate.dashboard.connections import ImpatientProtocol, QuietLoop
from crawlproj.operate.dashboard.guard import Guard, is_loopback, names_of_machine

BACKLOG = 128
GRACE_S = 1
"""How long streams have to end when the server does."""


class Place(NamedTuple):
    """Where it listens. The token is needed to look beyond loopback, and to act everywhere."""

    url: str
    token: str
    is_public: bool

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"{self.url}?token={self.token}" if self.is_public else self.url


class Listener:
    """A socket, and who may ask there."""

    def __init__(self, host: str, port: int, config: Config) -> None:
        self._socket = _listen(host, port)
        self._port = self._socket.getsockname()[1]
        is_public = not is_loopback(host)
        token = config.dashboard_token or secrets.token_urlsafe(24)
        names = names_of_machine(host, config.dashboard_hosts)
        self._guard = Guard(token, is_public, names, f"crawl_dashboard_{self._port}")
        shown = socket.gethostname() if host in ("0.0.0.0", "::", "") else host
        shown = f"[{shown}]" if ":" in shown else shown
        self.place = Place(f"http://{shown}:{self._port}/", token, is_public)

    async def serve(self, client: object, settings: Settings) -> None:
        """Answer until the process is told to end."""
        answers = Answers(client, settings)
        app = Dashboard(answers, Actions(answers, settings), self._guard).app()
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            backlog=BACKLOG,
            # Its warnings are of what anybody may send, as often as they like.
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=GRACE_S,
        )
        asyncio.get_running_loop().set_exception_handler(QuietLoop())
        await uvicorn.Server(config).serve(sockets=[self._socket])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:  # the latter: a port that is none
        listening.close()
        why = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot listen on {host} port {port}: {why}; --port 0 takes any"
        ) from None
    return listening
