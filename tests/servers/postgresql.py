"""A real PostgreSQL for tests: of the folder that TEST_POSTGRES_BIN names, else the one that the
package pgserver carries."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psycopg

from crawlproj.server.embedded import LOOPBACK, any_port
from tests.servers.redis import wait_for

PASSWORD = "s3cr3t"
QUICK = ("fsync=off", "full_page_writes=off", "unix_socket_directories=", "max_connections=40")
UNPRIVILEGED = "nobody"
"""Whom it runs as when tests run as root, for whom it refuses to."""


def binaries() -> Path:
    if named := os.environ.get("TEST_POSTGRES_BIN"):
        return Path(named)
    found = importlib.util.find_spec("pgserver")  # importing it would look for a server to stop
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """One server on a free port; the same port and folder when started again. `settings` are as in
    postgresql.conf: `fsync=on`."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._settings = (*QUICK, *settings)
        self.data = folder / "data"
        self.port = any_port()
        self._as: dict[str, Any] = {"user": UNPRIVILEGED} if os.geteuid() == 0 else {}
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://postgres:{password}@{LOOPBACK}:{self.port}/{database}"

    def __enter__(self) -> Self:
        folder = self.data.parent
        (folder / "password").write_text(PASSWORD)
        if self._as:
            shutil.chown(folder, UNPRIVILEGED)
        words = ["-D", str(self.data), "-U", "postgres", "-A", "scram-sha-256", "--no-sync"]
        words += [f"--pwfile={folder / 'password'}", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [binaries() / "initdb", *words], check=True, stdout=subprocess.DEVNULL, **self._as
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        words = ["-D", str(self.data), "-p", str(self.port), "-h", LOOPBACK]
        for setting in self._settings:
            words += ["-c", setting]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [binaries() / "postgres", *words], stdout=log, stderr=log, **self._as
            )
        wait_for(self._answers, "a PostgreSQL that answers")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """By default every connection is cut, as by a restart of the machine."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait()

    def database(self, name: str) -> str:
        """The address of a new and empty database."""
        self.query(f"CREATE DATABASE {name}")
        return self.url(name)

    def query(self, sql: str, database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(sql)
            return found.fetchall() if found.description else []

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self._log.read_text()
        with suppress(psycopg.OperationalError):
            self.query("SELECT 1")
            return True
        return False
