"""A private, persistent Redis for one folder of one machine.

The first worker of a folder starts it, all workers of the folder share it, and it is gone soon
after the last has left, by whatever way; the data stays for the next run. This module knows
nothing of Scrapy, of settings, or of what is stored.

Who is alive is left to the kernel, which drops a file lock with its holder, even on SIGKILL:

    users       a shared lock for each worker; exclusive while the server is being shut down
    start       exclusive for a worker that joins, so that two do not start two servers
    guard       exclusive for the guard, as long as it lives
    state.json  port, process ids and binary of the last server

The guard is a process of its own in a session of its own, out of reach of a Ctrl-C in the terminal.
It starts the server, starts it again should it crash, and shuts it down once it can have `users`
for itself. A worker that arrives at that moment waits for the lock, and so for a clean folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self

from crawlproj.errors import EmbeddedRedisError
from crawlproj.server.binaries import find_server

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 6379

# When the machine itself crashes, "everysec" costs the last second of the ledger, whose pages are
# then fetched once more; "always" costs nothing, and waits for the disk at every step. When only
# the server crashes, neither costs anything.
FSYNC = "everysec"

GUARD_POLL_S = 0.2
RESTARTS_A_MINUTE = 5
CLOSE_S = 10.0  # a server that has not closed by then hangs, and is killed
JOIN_S = 60.0  # how long the server of a live guard may be away


class EmbeddedRedis:
    """A worker's share in the Redis of a folder, from `acquire` to `release` or its death.

    `started` is true for the worker that started it; `notice` is a text for the user, if any.
    """

    def __init__(self, state: State, started: bool, notice: str | None, users: IO[str]) -> None:
        self.port = state.port
        self.pid = state.pid
        self.url = f"redis://{LOOPBACK}:{state.port}"
        self.started = started
        self.notice = notice
        self._users = users

    @classmethod
    def acquire(cls, folder: Path, port: int = DEFAULT_PORT) -> Self:
        """Join the Redis of this folder, or start it: on that port if it is free."""
        folder = folder.resolve()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            users = (folder / "users").open("a")
        except OSError as error:
            raise EmbeddedRedisError(
                f"The embedded Redis cannot use {folder} ({error.strerror}): make it writable, or "
                "name another Redis with REDIS_URL=redis://host:6379/0"
            ) from error
        try:
            fcntl.flock(users, fcntl.LOCK_SH)
            with (folder / "start").open("a") as start:
                fcntl.flock(start, fcntl.LOCK_EX)
                state, started = _join(folder, port)
            return cls(state, started, _notice(port, state.port), users)
        except BaseException:
            users.close()
            raise

    def release(self) -> None:
        """Leave. The server goes when the last worker has."""
        self._users.close()


@dataclass(frozen=True)
class State:
    """What the guard tells about its server. True only as long as the guard lives."""

    port: int
    pid: int
    guard: int
    binary: str

    @classmethod
    def read(cls, folder: Path) -> State | None:
        try:
            return cls(**json.loads((folder / "state.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        draft = folder / "state.json.new"
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(folder / "state.json")


def _notice(wanted: int, port: int) -> str | None:
    if port == wanted:
        return None
    ours = f"this project's own Redis is on port {port} (redis-cli -p {port})"
    if _ask(wanted, b"PING")[:1] in (b"+", b"-"):
        return (
            f"Another Redis answers on {LOOPBACK}:{wanted}; {ours}. "
            f"To use the other one: REDIS_URL=redis://{LOOPBACK}:{wanted}/0"
        )
    return f"Port {wanted} was taken by another program; {ours}"


def _join(folder: Path, port: int) -> tuple[State, bool]:
    """The state of a server that answers, and whether we had to start it."""
    started = False
    deadline = time.monotonic() + JOIN_S
    while time.monotonic() < deadline:
        if not is_guarded(folder):
            started = _start_guard(folder, port)
        state = State.read(folder)
        if state and is_ready(state.port, folder):
            return state, started
        time.sleep(0.02)
    raise EmbeddedRedisError(
        f"The embedded Redis of {folder} has a guard but does not answer: see server.log and "
        "guard.log there, end the process named as guard in state.json, and start again"
    )


def is_guarded(folder: Path) -> bool:
    with (folder / "guard").open("a") as guard:
        return not _try_lock(guard)


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start_guard(folder: Path, port: int) -> bool:
    """Run the guard, wait for its verdict, and say whether it is the one who started the server."""
    with (folder / "guard.log").open("w") as log:
        verdict = subprocess.run(
            [sys.executable, "-m", "crawlproj.server.embedded", str(folder), str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # ends when the guard has given its verdict, or has died
            stderr=log,
            cwd=Path(__file__).parents[2],  # where -m finds the package, installed or not
            text=True,
            check=False,
        ).stdout
    if verdict in (_Guard.STARTED, _Guard.SUPERFLUOUS):
        return verdict == _Guard.STARTED
    raise EmbeddedRedisError(verdict or f"The guard of the embedded Redis died: see {log.name}")


def _ask(port: int, *commands: bytes) -> bytes:
    """The replies to inline commands, or nothing where nobody answers."""
    # Without a client library: to import one takes as long as the rest of a start.
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
            connection.sendall(b"".join(command + b"\r\n" for command in commands))
            return connection.recv(65536)
    except OSError:
        return b""


def is_ready(port: int, folder: Path) -> bool:
    """Whether the server of this folder, and not just any, answers there and has its data."""
    path = os.fsencode(folder)
    expected = b"+PONG\r\n*2\r\n$3\r\ndir\r\n$%d\r\n%s\r\n" % (len(path), path)
    return _ask(port, b"PING", b"CONFIG GET dir") == expected


def any_port() -> int:
    """A free port, of those that no outgoing connection takes while a server restarts."""
    while not _is_free(port := 20000 + secrets.randbelow(12000)):
        pass
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does: connections that only wait to expire do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


class _Guard:
    """The process that owns the server; the only one that starts, restarts and stops it."""

    STARTED, SUPERFLUOUS = "started", "superfluous"

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.wanted_port = port
        self.server: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        # The guard lock is dropped first: the worker that gets `users` next must not take this
        # process for a guard at work.
        with (self.folder / "users").open("a") as users, (self.folder / "guard").open("a") as guard:
            if not _try_lock(guard):
                _give_verdict(self.SUPERFLUOUS)
                return
            try:
                self._start()
                _give_verdict(self.STARTED)
                self._watch(users)
            except EmbeddedRedisError as error:
                _give_verdict(str(error))
            finally:
                self._stop()

    def _start(self) -> None:
        previous = State.read(self.folder)
        # What one server has written, another may not be able to read.
        self.binary = find_server(previous.binary if previous else None)
        # Workers that have outlived their guard go on with its server, by its port.
        known = previous.port if _stop_leftover(self.folder) and previous else self.wanted_port
        for port in (known, any_port(), any_port()):
            if not _is_free(port):
                continue
            if self._launch(port):
                self.state.write(self.folder)
                return
            if _is_free(port):  # then the port was not what it died of
                break
        raise EmbeddedRedisError(self._why_not())

    def _launch(self, port: int) -> bool:
        """Start the server on this port and wait until it is ready or has died."""
        self.server = server = subprocess.Popen(
            [self.binary, *_options(self.folder, port)],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,  # only what it says before it has read its options
        )
        self.state = State(port, server.pid, os.getpid(), self.binary)
        while server.poll() is None:
            if is_ready(port, self.folder):
                return True
            time.sleep(0.01)
        return False

    def _watch(self, users: IO[str]) -> None:
        """Return once no worker is left, and keep the server running until then."""
        restarts: deque[float] = deque(maxlen=RESTARTS_A_MINUTE)
        while not _try_lock(users):
            is_dead = self.server is None or self.server.poll() is not None
            if is_dead and may_restart(restarts, time.monotonic()):
                # On a full disk, or while its binary is being upgraded, it has to wait.
                with contextlib.suppress(OSError):
                    self._launch(self.state.port)
                    self.state.write(self.folder)
            time.sleep(GUARD_POLL_S)

    def _stop(self) -> None:
        if self.server:
            self.server.terminate()
            try:
                self.server.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()

    def _why_not(self) -> str:
        log = self.folder / "server.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        reason = lines[-1] if lines else "it wrote no log"
        return f"The embedded Redis ({self.binary}) does not start: {reason} (more in {log})"


def may_restart(restarts: deque[float], now_s: float) -> bool:
    """Not more often than a minute allows: a server that dies at once would eat the machine."""
    if len(restarts) == restarts.maxlen and now_s - restarts[0] < 60:
        return False
    restarts.append(now_s)
    return True


def _options(folder: Path, port: int) -> list[str]:
    options = {
        "dir": str(folder),
        "port": str(port),
        "bind": LOOPBACK,
        "protected-mode": "yes",
        "maxmemory-policy": "noeviction",
        "appendonly": "yes",
        "appendfsync": FSYNC,
        "aof-load-truncated": "yes",  # a crash may have cut the last write short
        "save": "",
        "logfile": "server.log",
        "pidfile": "server.pid",
        "set-proc-title": "no",  # the folder on the command line is how a leftover is known
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _stop_leftover(folder: Path) -> bool:
    """End the server of a guard that was killed: two on the same files would ruin them."""
    try:
        pid = int((folder / "server.pid").read_text())
    except (OSError, ValueError):
        return False
    if not _is_ours(pid, folder):
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + CLOSE_S
    while _is_ours(pid, folder):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return True


def _is_ours(pid: int, folder: Path) -> bool:
    """Whether that process serves this folder; after a reboot the number may be anyone's."""
    if Path("/proc/self/cmdline").exists():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            return False
    else:
        command = ["ps", "-o", "args=", "-p", str(pid)]
        words = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout
    return b"--dir %s --port" % os.fsencode(folder) in words


def _give_verdict(verdict: str) -> None:
    os.write(1, verdict.encode())
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run_guard(folder: str, port: str) -> None:
    # A second process without ties: no child for the worker to wait for, no terminal to obey.
    if os.fork():
        os._exit(0)
    os.setsid()
    _Guard(Path(folder), int(port)).run()


if __name__ == "__main__":
    _run_guard(*sys.argv[1:])
