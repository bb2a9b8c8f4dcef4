"""`scrapy dashboard`: a live web page of all crawls on this Redis."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.operate.command import ProjectCommand, connected, offer_json

if TYPE_CHECKING:
    from crawlproj.operate.dashboard.serving import Listener, Place

HOST, PORT = "127.0.0.1", 8765


class Command(ProjectCommand):
    most_arguments = 0
    arguments = "[--host H] [--port P]"
    summary = "Show all crawls on a live web page, with metrics for Prometheus"

    def long_desc(self) -> str:
        return (
            "Serves a page on which all crawls of this Redis can be watched and commanded, also "
            "/metrics for Prometheus, /api/status/<crawl> as scrapy status --json, and /healthz. "
            "It listens on this machine alone unless --host says otherwise; then nothing is shown "
            "or done without the token, which it prints (CRAWL_DASHBOARD_TOKEN names one)."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        offer_json(parser)
        parser.add_argument("--host", default=HOST, help=f"address to listen on ({HOST})")
        parser.add_argument(
            "--port", type=int, default=PORT, help=f"port to listen on ({PORT}; 0: any)"
        )

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        listener = _listener(opts.host, opts.port, Config.from_settings(self.settings))
        asyncio.run(self._serve(listener, opts))
        return 0

    async def _serve(self, listener: Listener, opts: argparse.Namespace) -> None:
        assert self.settings is not None
        async with connected(self.settings, may_begin=True) as client:
            _tell(listener.place, opts)
            await listener.serve(client, self.settings)


def _listener(host: str, port: int, config: Config) -> Listener:
    # Late: only who has a dashboard needs what serves it.
    try:
        from crawlproj.operate.dashboard.serving import Listener
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"scrapy dashboard needs {error.name}: pip install 'crawlproj[dashboard]'"
        ) from None
    return Listener(host, port, config)


def _tell(place: Place, opts: argparse.Namespace) -> None:
    if opts.json:
        told = {"url": place.url, "address": place.address, "token": place.token}
        print(json.dumps(told), flush=True)
        return
    print(f"The dashboard is at {place.address} (Ctrl-C ends it)", flush=True)
    if place.is_public:
        print(
            f"Token: {place.token}\nWhoever has it can see and stop crawls. What is sent is not "
            "encrypted: put a proxy with TLS before it, or ssh -L, where others could listen.",
            flush=True,
        )
