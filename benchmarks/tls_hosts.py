"""Many hosts over TLS, at addresses of their own: an nginx that counts handshakes.

Every host is an address of 127.0.0.0/8 with a certificate of its own. A handshake is a connection
whose first request the origin has answered; one that resumed a session needed no certificate.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from benchmarks.nginx import LOG_FLUSH_MS, free_port, wait_until_up
from crawlproj.operate.request_log import Logged
from tests.servers.tls import Authority

HOSTS_A_NET = 250


class Handshakes(NamedTuple):
    all: int
    resumed: int


class TlsHosts:
    """Serves from `__enter__` on. Every host has a page that links to so many others, all alike."""

    def __init__(self, hosts: int, pages_each: int, keep_alive_s: float) -> None:
        self._addresses = [_address(number) for number in range(hosts)]
        self._pages_each = pages_each
        self._keep_alive_s = keep_alive_s

    @property
    def seeds(self) -> list[str]:
        return [f"https://{address}:{self._port}/" for address in self._addresses]

    @property
    def pid(self) -> int:
        return self._process.pid

    def requests(self) -> list[Logged]:
        """Every request answered up to a moment ago."""
        return [_logged(fields) for fields in self._lines()]

    def handshakes(self, pages: Iterable[Logged]) -> Handshakes:
        """Those that these requests began with."""
        wanted = {(page.host, page.path) for page in pages}
        first = [one for one in self._lines() if one[4] == "1" and (one[2], one[3]) in wanted]
        return Handshakes(len(first), sum(one[5] == "r" for one in first))

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-tls-")
        folder = Path(self._scratch.name)
        self._log, self._errors = folder / "requests.tsv", folder / "errors"
        self._port = free_port()
        authority = Authority(folder)
        self.authority = authority.certificate
        for address in self._addresses:
            authority.issue_file(address)
        links = "".join(f"<a href=/{number}>{number}</a> " for number in range(self._pages_each))
        (folder / "page.html").write_text(f"<title>a page</title>{links}" + "text " * 200)
        config = folder / "nginx.conf"
        config.write_text("\n".join(self._config(folder)))
        command = ["nginx", "-p", str(folder), "-e", str(self._errors), "-c", str(config)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_until_up(self._process, self._port, self._errors)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._scratch.cleanup()

    def _lines(self) -> Iterator[list[str]]:
        for line in self._log.read_text().split("\n")[:-1]:
            yield line.split("\t")

    def _config(self, folder: Path) -> Iterator[str]:
        yield "daemon off; master_process off; worker_rlimit_nofile 32768;"
        yield f"pid {folder}/pid; events {{ worker_connections 16384; }}"
        yield "http {"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
            yield f"{name}_temp_path {folder}/{name};"
        yield (
            r"log_format seen '$msec\t$request_time\t$server_addr\t$request_uri"
            r"\t$connection_requests\t$ssl_session_reused\t$status\t$remote_port';"
        )
        yield f"access_log {self._log} seen buffer=64k flush={LOG_FLUSH_MS}ms;"
        yield f"keepalive_requests 100000000; keepalive_timeout {1000 * self._keep_alive_s:.0f}ms;"
        yield f"server {{ listen 0.0.0.0:{self._port} ssl backlog=4096;"
        for what in ("certificate", "certificate_key"):
            yield f"ssl_{what} {folder}/server-$server_addr.pem;"
        yield "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:16m;"
        yield f"root {folder}; default_type 'text/html; charset=utf-8';"
        yield "location = /robots.txt { return 404; }"
        yield "location / { try_files /page.html =404; } } }"


def _address(number: int) -> str:
    net, host = divmod(number, HOSTS_A_NET)
    return f"127.0.{net + 1}.{host + 1}"


def _logged(fields: list[str]) -> Logged:
    end_s, took_s, address, path, _, _, status, port = fields
    start_s = float(end_s) - float(took_s)
    return Logged(start_s, float(end_s), address, "GET", path, int(status), int(port), "")
