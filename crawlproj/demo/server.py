"""A demo web in a process of its own, as a context manager.

with DemoServer(WebSpec(hosts=3, pages=60)) as demo:
    crawl(demo.seeds)
    assert fetched == demo.web.expected(demo.seeds).pages
    assert max(fetch_counts(demo.requests()).values()) == 1
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import IO, Self

from crawlproj.demo.serve import FLUSH, FLUSHED
from crawlproj.demo.spec import DemoError, WebSpec
from crawlproj.demo.web import DemoWeb
from crawlproj.operate.request_log import Logged, read_log

PROJECT = Path(__file__).resolve().parents[2]
NOT_RUNNING = "the demo server is not running: use it in a with statement"


class DemoServer:
    """Serves from `__enter__` on; the log stays readable after `__exit__`."""

    def __init__(
        self, spec: WebSpec | None = None, log_path: Path | None = None, port: int = 0
    ) -> None:
        self.spec = spec or WebSpec()
        self.seeds: list[str] = []
        self._port = port
        self._log_path = log_path
        self._last_log: list[Logged] = []
        self._process: subprocess.Popen[str] | None = None

    @cached_property
    def web(self) -> DemoWeb:
        """The web that is served, at the addresses where it is."""
        if not self.seeds:
            raise DemoError(NOT_RUNNING)
        return DemoWeb(self.spec, [seed.rstrip("/") for seed in self.seeds])

    @property
    def pid(self) -> int:
        """Of the server process, for those who pin it to a core or measure it."""
        if self._process is None:
            raise DemoError(NOT_RUNNING)
        return self._process.pid

    def requests(self) -> list[Logged]:
        """Every request answered up to now."""
        if self._process is not None:
            self._flush_log(self._process)
        elif self._log_path is None:
            return self._last_log
        return read_log(self._log_file())

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="demo-web-")
        self._errors: IO[str] = (Path(self._scratch.name) / "errors").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crawlproj.demo", "--control", *self._options()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=os.environ | {"PYTHONPATH": _python_path()},
        )
        try:
            self.seeds = [self._read_line(self._process) for _ in range(self.spec.hosts)]
        except BaseException:
            self._stop(self._process)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._stop(self._process)

    def _options(self) -> list[str]:
        spec = [
            f"--{field.name.replace('_', '-')}={getattr(self.spec, field.name)}"
            for field in fields(WebSpec)
        ]
        return [*spec, f"--port={self._port}", f"--log={self._log_file()}"]

    def _log_file(self) -> Path:
        return self._log_path or Path(self._scratch.name) / "requests.tsv"

    def _flush_log(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(f"{FLUSH}\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._failure(process) from None
        answer = self._read_line(process)
        assert answer == FLUSHED, answer

    def _read_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise self._failure(process)
        return line.rstrip("\n")

    def _failure(self, process: subprocess.Popen[str]) -> DemoError:
        code = process.wait()
        self._errors.seek(0)
        return DemoError(self._errors.read().strip() or f"the demo server ended with {code}")

    def _stop(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.wait()
        for pipe in (process.stdin, process.stdout, self._errors):
            assert pipe is not None
            # A command that a dead server never took is still in the pipe's buffer.
            with suppress(BrokenPipeError):
                pipe.close()
        self._process = None
        if self._log_path is None and self._log_file().exists():
            self._last_log = read_log(self._log_file())
        self._scratch.cleanup()


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
