"""`scrapy dashboard` as a process of its own, and a browser to look at it with."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.servers import scrapy_process
from tests.servers.redis import wait_for
from tests.servers.scrapy_process import PROJECT

CHROMIUM_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class DashboardProcess:
    """One that listens on a free port of loopback, or of the address that is given."""

    def __init__(
        self, folder: Path, redis_url: str, *words: str, env: Mapping[str, str] | None = None
    ) -> None:
        self._said = folder / "dashboard.json"
        self._log = folder / "dashboard.log"
        self._words = ["dashboard", "--port", "0", "--json", *words]
        own = {"PYTHONPATH": str(PROJECT), "REDIS_URL": redis_url, **(env or {})}
        self._env = {**os.environ, **own, "CRAWL_OUTPUT": str(folder / "output")}
        self.url = self.address = self.token = ""
        self.port = 0

    def __enter__(self) -> Self:
        nothing = Path(os.devnull)
        with self._said.open("wb") as out, self._log.open("wb") as log, nothing.open() as no_input:
            files = {"stdin": no_input, "stdout": out, "stderr": log}
            numbers = {name: file.fileno() for name, file in files.items()}
            self._process = scrapy_process.start(self._words, self._env, PROJECT, **numbers)
        wait_for(self._is_there, "the dashboard says where it is")
        told = json.loads(self._said.read_text())
        self.url, self.address, self.token = told["url"], told["address"], told["token"]
        self.port = int(self.url.rpartition(":")[2].rstrip("/"))
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def _is_there(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return self._said.read_text().endswith("\n")

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """What it has said on standard error."""
        return self._log.read_text()

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        """Ask as anything but a browser would: with these headers and no others."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, path, sent, given)
        reply = connection.getresponse()
        found = {name.lower(): value for name, value in reply.getheaders()}
        answer = Answer(reply.status, found, reply.read())
        connection.close()
        return answer

    def do(self, crawl: str, action: str, **given: Any) -> Answer:
        """Act as the page does."""
        return self.ask(f"/api/do/{crawl}/{action}", "POST", given, X_Crawl_Token=self.token)
