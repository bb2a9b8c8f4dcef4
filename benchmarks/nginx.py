"""nginx in front of files in memory: an origin for TLS, HTTP/2 and packed pages.

Pages are packed beforehand and lie beside the plain ones (`a.html`, `a.html.gz`, `a.html.br`):
nginx chooses by what a client accepts and sends the file as it is. It is one process on one core;
what it took of that core stands in the table, and so does the bare loop over the same web.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from crawlproj.fetch.open_files import raise_limit
from tests.servers.tls import Authority

ADDRESS = "127.0.0.1"
START_S = 10.0
LOG_FLUSH_MS = 50
FULL = "Too many open files"
SUFFIXES = {"gzip": ".gz", "br": ".br"}
UTF_8 = "text/html; charset=utf-8"
NO_CHARSET = "text/html"


class Seen(NamedTuple):
    """A request as the origin saw it."""

    start_s: float
    end_s: float
    path: str
    status: int
    protocol: str = "HTTP/1.1"
    encoding: str = ""


@dataclass(frozen=True)
class Kind:
    """How some of the pages are sent."""

    content_type: str = UTF_8
    encodings: tuple[str, ...] = ()
    """What pages may be packed with, the best last."""


class Nginx:
    """Serves a folder from `__enter__` on, over TLS where an authority is given. Each page is of
    one kind, always of the same, and each kind has as many pages."""

    def __init__(
        self,
        root: Path,
        kinds: Sequence[Kind],
        authority: Authority | None = None,
        *,
        http2: bool = False,
    ) -> None:
        self._root, self._kinds = root, kinds
        self._authority, self._http2 = authority, http2

    @property
    def seed(self) -> str:
        return f"{'https' if self._authority else 'http'}://{ADDRESS}:{self._port}/"

    @property
    def pid(self) -> int:
        return self._process.pid

    def requests(self) -> list[Seen]:
        """Every request answered up to a moment ago; ends the benchmark if some could not be."""
        if FULL in self._errors.read_text(encoding="utf-8"):
            raise SystemExit(f"nginx had {FULL.lower()}: what it served is no measure")
        lines = self._log.read_text(encoding="utf-8").split("\n")
        return [_seen(line) for line in lines[:-1]]

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-nginx-")
        folder = Path(self._scratch.name)
        self._log, self._errors = folder / "requests.tsv", folder / "errors"
        self._port = free_port()
        config = folder / "nginx.conf"
        config.write_text("\n".join(self._config(folder)), encoding="utf-8")
        command = ["nginx", "-p", str(folder), "-e", str(self._errors), "-c", str(config)]
        raise_limit()  # and so that of nginx, which has one process and no way to ask for itself
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_until_up(self._process, self._port, self._errors)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._scratch.cleanup()

    def _config(self, folder: Path) -> Iterator[str]:
        yield "daemon off; master_process off;"
        yield f"pid {folder}/pid;"
        yield "events { worker_connections 4096; }"
        yield "http {"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
            yield f"{name}_temp_path {folder}/{name};"
        yield (
            r"log_format seen '$msec\t$request_time\t$request_uri\t$status\t$server_protocol"
            r"\t$sent_http_content_encoding';"
        )
        yield f"access_log {self._log} seen buffer=64k flush={LOG_FLUSH_MS}ms;"
        yield "keepalive_requests 100000000; keepalive_timeout 300s;"
        yield "types {} output_buffers 2 256k;"
        yield from self._choices()
        yield "server {"
        yield from self._listen()
        yield f"root {self._root};"
        # By a header of ours, because nginx's own content type cannot depend on the page.
        yield 'default_type ""; add_header Content-Type $sent_type;'
        yield "add_header Content-Encoding $sent_encoding; add_header Vary Accept-Encoding;"
        yield "location = / { try_files /index.html$sent_suffix =404; }"
        yield "location / { try_files $uri$sent_suffix =404; }"
        yield "} }"

    def _choices(self) -> Iterator[str]:
        """The kind of a page by its path; its type and the file to send by its kind."""
        last = len(self._kinds) - 1
        shares = [f"{100 / (last + 1):.2f}% {number};" for number in range(last)]
        yield f'split_clients "$uri" $kind {{ {"".join(shares)} * {last}; }}'
        for number, kind in enumerate(self._kinds):
            yield from _packed(f"$packed_{number}", kind.encodings)
        suffixes = [f"{number} $packed_{number};" for number in range(last + 1)]
        yield f"map $kind $sent_suffix {{ {' '.join(suffixes)} }}"
        types = [f'{number} "{kind.content_type}";' for number, kind in enumerate(self._kinds)]
        yield f"map $kind $sent_type {{ {' '.join(types)} }}"
        yield "map $sent_suffix $sent_encoding { .gz gzip; .br br; }"

    def _listen(self) -> Iterator[str]:
        if self._authority is None:
            yield f"listen {ADDRESS}:{self._port} backlog=1024;"
            return
        identity = self._authority.issue_file(ADDRESS)
        http2 = "http2 " if self._http2 else ""
        yield f"listen {ADDRESS}:{self._port} ssl {http2}backlog=1024;"
        yield f"ssl_certificate {identity}; ssl_certificate_key {identity};"
        yield "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:1m;"


def wait_until_up(process: subprocess.Popen[bytes], port: int, errors: Path) -> None:
    """Return when nginx answers; else end it, and say what it has told."""
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        with suppress(OSError), socket.create_connection((ADDRESS, port), timeout=1):
            return
        time.sleep(0.02)
    process.terminate()
    process.wait()
    told = errors.read_text() if errors.exists() else ""
    raise SystemExit(f"nginx does not start:\n{told}")


def is_there() -> bool:
    return shutil.which("nginx") is not None


@contextmanager
def authority() -> Iterator[Authority]:
    """One that lives as long as the run."""
    with tempfile.TemporaryDirectory(prefix="bench-ca-") as folder:
        yield Authority(Path(folder))


def _packed(variable: str, encodings: Sequence[str]) -> Iterator[str]:
    """The suffix of the file that a client is sent, by what it accepts: the best, if it can."""
    fallback = '""'
    if not encodings:
        yield f"map $kind {variable} {{ default {fallback}; }}"
    for number, encoding in enumerate(encodings):
        name = variable if number == len(encodings) - 1 else f"{variable}_{number}"
        choices = rf"default {fallback}; ~\b{encoding}\b {SUFFIXES[encoding]};"
        yield f"map $http_accept_encoding {name} {{ {choices} }}"
        fallback = name


def _seen(line: str) -> Seen:
    end_s, took_s, path, status, protocol, encoding = line.split("\t")
    start_s = float(end_s) - float(took_s)
    return Seen(start_s, float(end_s), path, int(status), protocol, encoding.strip("-"))


def free_port() -> int:
    """One that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port
