"""`scrapy …` as a process of its own, without the second that Python takes to import Scrapy.

A server process imports everything once and forks for each command: what comes out is a real
process, with its own environment, folder and files, that can be signalled and killed. What must
be there before Python starts (a library to preload) gets a fresh interpreter.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from crawlproj import failpoints
from crawlproj.config.environment import PLAIN_SCRAPY
from tests.servers import scrapy_client

PROJECT = Path(__file__).parents[2]
FOLDER = "SCRAPY_SERVER_FOLDER"
"""The environment variable with the folder in which the servers listen."""
BEFORE_START = ("LD_PRELOAD",)
"""Variables that are read when Python is loaded."""

PACKAGES = (
    "crawlproj",
    "scrapy_redis",
    "scrapy.commands",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
)
MODULES = (
    "aiohttp.web",
    "platformdirs.unix",
    "scrapy.cmdline",
    "scrapy.core.downloader.handlers.http11",  # named by RETRY_EXCEPTIONS; slow to import
    "scrapy.core.engine",
    "scrapy.core.scraper",
    "scrapy.pipelines",
    "redis.asyncio.cluster",
    "twisted.internet.asyncioreactor",
)
EXTENSIONS = (
    *("closespider", "corestats", "feedexport", "logcount", "logstats", "memdebug", "memusage"),
    *("remote_control", "spiderstate", "telnet", "throttle"),
)
OF_DUCKDB = (
    *("output.answers", "output.database", "output.loading", "output.merge", "output.own_items"),
    *("output.near_copies", "output.query", "output.sitemap_writing", "output.tables"),
    *("report.broken", "report.comparison", "report.reading", "earlier.build"),
    *("report.unfetched", "output.link_rank", "output.ordering"),
)
"""Modules that import DuckDB, which complains when a process ends if it was there before
`gc.freeze`. Commands import them when they need them, and workers never do."""
REQUEST_BYTES = 1 << 20
POLL_S = 0.005


class ScrapyProcess:
    """A running command, with those verbs of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, status: IO[bytes]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        if self.returncode is None and (said := self._status.read()):
            self.returncode = os.waitstatus_to_exitcode(int(said))
            self._status.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (timeout or float("inf"))
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("scrapy", timeout or 0)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    words: list[str], env: dict[str, str], cwd: Path, *, stdin: int, stdout: int, stderr: int
) -> ScrapyProcess | subprocess.Popen[bytes]:
    """Begin `scrapy WORDS`, with these open files."""
    if _needs_an_interpreter(env):
        command = [sys.executable, "-m", "scrapy", *words]
        return subprocess.Popen(
            command, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr
        )
    plain = env.get(PLAIN_SCRAPY, "")
    pid, status = scrapy_client.ask(server(plain), words, env, str(cwd), [stdin, stdout, stderr])
    os.set_blocking(status, False)
    return ScrapyProcess(pid, os.fdopen(status, "rb", buffering=0))


def _needs_an_interpreter(env: dict[str, str]) -> bool:
    path = env.get("PYTHONPATH", "").split(os.pathsep)
    is_customised = any((Path(part) / "sitecustomize.py").exists() for part in path)
    return is_customised or any(name in env for name in BEFORE_START)


def run(
    words: list[str], env: dict[str, str], cwd: Path, stdin: str = "", timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `scrapy WORDS` to its end."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin.encode())
        given.seek(0)
        files = {"stdin": given.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        process = start(words, env, cwd, **files)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, code, _text(out), _text(err))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def listen_for_all() -> None:
    """Have one pair of servers asked by all the processes of a run of tests: what they import takes
    three seconds of a processor. The servers import it when they are first asked for a command."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    for plain in ("", "1"):
        _start_server(str(Path(folder.name) / f"plain{plain}"), plain)
    os.environ[FOLDER] = folder.name


@functools.cache
def server(plain: str = "") -> socket.socket:
    """A connection to a server: which of Scrapy's parts are ours is decided when they are loaded,
    so there is one with and one without."""
    if FOLDER not in os.environ:
        listen_for_all()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(Path(os.environ[FOLDER]) / f"plain{plain}"))
    atexit.register(connection.close)
    return connection


def _start_server(path: str, plain: str) -> None:
    """One that listens at that path for as long as this process lives."""
    life, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen(64)
        numbers = (theirs.fileno(), listening.fileno())
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.scrapy_process", *map(str, numbers)],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(PROJECT), PLAIN_SCRAPY: plain},
            stdin=subprocess.DEVNULL,
            pass_fds=numbers,
        )
    atexit.register(process.wait)
    atexit.register(life.close)  # first: the server ends with it


# The server


def _serve(life: socket.socket, listening: socket.socket) -> None:
    """Fork for each request; returns in the child alone, as the command that was asked for."""
    statuses: dict[int, int] = {}

    def reap(*_: object) -> None:
        for pid in list(statuses):
            # Another that ends meanwhile calls this once more, from in here, and may be quicker.
            with suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    told = statuses.pop(pid)
                    with suppress(BrokenPipeError):  # who asked has ended
                        os.write(told, str(status).encode())
                    os.close(told)

    signal.signal(signal.SIGCHLD, reap)
    clients: list[socket.socket] = []
    while True:
        request, fds = _next_request(life, listening, clients)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            for one in (life, listening, *clients):
                one.close()
            for other in (*statuses.values(), fds[3]):
                os.close(other)
            _become(json.loads(request), fds[:3])
            return
        for fd in fds[:3]:
            os.close(fd)
        statuses[pid] = fds[3]
        with suppress(BrokenPipeError):
            os.write(fds[3], f"{pid}\n".encode())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _next_request(
    life: socket.socket, listening: socket.socket, clients: list[socket.socket]
) -> tuple[bytes, list[int]]:
    """What one of the clients asks for, and the files that come with it."""
    while True:
        can_be_read = select.select([life, listening, *clients], [], [])[0]
        if life in can_be_read:
            os._exit(0)
        if listening in can_be_read:
            clients.append(listening.accept()[0])
        for client in (one for one in clients if one in can_be_read):
            request, fds, _, _ = socket.recv_fds(client, REQUEST_BYTES, 4)
            if request:
                return request, fds
            clients.remove(client)
            client.close()
            break


def _become(request: dict[str, object], files: list[int]) -> None:
    """Be what `python -m scrapy WORDS` would be in that folder, with that environment."""
    for target, fd in enumerate(files):
        os.dup2(fd, target)
        os.close(fd)
    env, cwd, words = request["env"], str(request["cwd"]), request["words"]
    assert isinstance(env, dict)
    assert isinstance(words, list)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    path = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [cwd, *path, *(part for part in sys.path if part not in ("", str(PROJECT)))]
    sys.argv[:] = ["scrapy", *words]
    if action := env.get("PYTHONWARNINGS"):
        warnings.simplefilter(action)
    failpoints.reached = failpoints.from_text(env.get(failpoints.VARIABLE, ""))


def _load() -> None:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not found.name.endswith(("__main__", *OF_DUCKDB)):
                importlib.import_module(found.name)
    for name in (*MODULES, *(f"scrapy.extensions.{one}" for one in EXTENSIONS)):
        importlib.import_module(name)
    assert "twisted.internet.reactor" not in sys.modules, "each command installs its own"
    assert "duckdb" not in sys.modules, "name the module that imports it in OF_DUCKDB"
    _remember_commands()
    gc.collect()
    gc.freeze()


def _remember_commands() -> None:
    """Ask of every class in Scrapy's commands whether it is a command, as each start does. Abstract
    classes remember the answers, and forked processes with them: a third of what a start takes."""
    from scrapy.commands import ScrapyCommand

    for module in (name for name in list(sys.modules) if name.startswith("scrapy.commands")):
        for kept in vars(sys.modules[module]).values():
            if isinstance(kept, type):
                issubclass(kept, ScrapyCommand)


def main() -> None:
    life, listening = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    if life in select.select([life, listening], [], [])[0]:
        return
    _load()
    _serve(life, listening)
    from scrapy.cmdline import execute

    try:
        execute()
    except SystemExit as end:
        _end(end.code)


def _end(code: object) -> NoReturn:
    """What Python does at the end, but for taking every module apart: a fork would have to copy
    nearly all of its memory for that."""
    with suppress(KeyboardInterrupt):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    if isinstance(code, str):
        os.write(2, f"{code}\n".encode())
    os._exit(code if isinstance(code, int) else 1 if code else 0)


if __name__ == "__main__":
    main()
