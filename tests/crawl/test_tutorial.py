"""The tutorial, to the letter, on three machines: network namespaces, which share nothing but a
switch. The Redis is where the page says, the site is on a fourth, and a worker is really killed.

A block of the page says by a comment on which machine it is typed: `<!-- on: second -->`.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import pytest

from tests.servers.fleet import PROJECT
from tests.servers.redis import cli_binary, server_binary, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("ip"),
        reason="network namespaces need root and iproute2",
    ),
]

MACHINES = ("first", "second", "third")
SITE = "http://10.0.0.4:8000"
PAGES = 300
BLOCK = re.compile(r"<!-- on: (\w+) -->\n```console\n(.*?)```", re.DOTALL)


def ip(*words: str) -> str:
    return subprocess.check_output(["ip", *words], text=True)


class Network:
    """Machines by name, 10.0.0.1 and so on, on one switch; all of it is gone in the end."""

    def __init__(self, *machines: str) -> None:
        self._prefix = f"crawl{os.getpid()}"
        self._machines = machines

    def place(self, machine: str) -> str:
        return f"{self._prefix}-{machine}"

    def __enter__(self) -> Network:
        switch = self.place("switch")
        for name in ("switch", *self._machines):
            ip("netns", "add", self.place(name))
        ip("-n", switch, "link", "add", "name", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for number, name in enumerate(self._machines, 1):
            place = self.place(name)
            end = ["peer", "name", "eth0", "netns", place]
            ip("-n", switch, "link", "add", f"port{number}", "type", "veth", *end)
            ip("-n", switch, "link", "set", f"port{number}", "master", "bridge", "up")
            ip("-n", place, "address", "add", f"10.0.0.{number}/24", "dev", "eth0")
            ip("-n", place, "link", "set", "eth0", "up")
            ip("-n", place, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in (*self._machines, "switch"):
            for pid in ip("netns", "pids", self.place(name)).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            ip("netns", "delete", self.place(name))


class Terminal:
    """A shell on one machine, in a project of its own."""

    def __init__(self, place: str, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        command = ["ip", "netns", "exec", place, "bash", "-m"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._shell = subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes)  # type: ignore[call-overload]

    def type(self, command: str) -> str:
        """Returns what is printed; fails with it, if the command does."""
        keyboard: IO[str] = self._shell.stdin
        keyboard.write(f"{command}\necho @@@$?\n")
        keyboard.flush()
        lines = []
        for line in self._shell.stdout:
            if line.startswith("@@@"):
                assert line == "@@@0\n", f"$ {command}\n{''.join(lines)}"
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"$ {command}\nthe shell has ended: {''.join(lines)}")

    def close(self) -> None:
        self._shell.kill()
        self._shell.communicate()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(*MACHINES, "web") as network:
        yield network


@pytest.fixture
def site(tmp_path: Path, network: Network) -> Iterator[Path]:
    """Pages that lead to the next ones, on a machine of their own; returns the server's log."""
    folder, log = tmp_path / "www", tmp_path / "web.log"
    folder.mkdir()
    for number in range(PAGES):
        more = [f"{one}.html" for one in (2 * number + 1, 2 * number + 2) if one < PAGES]
        links = "".join(f"<a href=/{one}>{one}</a>" for one in more)
        name = "index.html" if number == 0 else f"{number}.html"
        (folder / name).write_text(f"<title>Page {number}</title>{links}")
    serve = [sys.executable, "-u", "-m", "http.server", "--bind", "10.0.0.4", "8000"]
    with log.open("w") as file:
        command = ["ip", "netns", "exec", network.place("web"), *serve]
        server = subprocess.Popen(command, cwd=folder, stdout=file, stderr=file)
        wait_for(lambda: "Serving" in log.read_text(), "the site is served")
        yield log
        server.kill()
        server.wait()


@pytest.fixture
def terminals(tmp_path: Path, network: Network, site: Path) -> Iterator[dict[str, Terminal]]:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "redis-server").symlink_to(server_binary())
    (tools / "redis-cli").symlink_to(cli_binary())
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(PROJECT)}
    with ExitStack() as stack:
        opened = {}
        for name in MACHINES:
            folder = tmp_path / name / "crawl"
            for part in ("spiders", "pipelines", "settings"):
                shutil.copytree(PROJECT / part, folder / part)
            shutil.copy(PROJECT / "scrapy.cfg", folder)
            opened[name] = Terminal(network.place(name), folder, env)
            stack.callback(opened[name].close)
        yield opened


def typed() -> Iterator[tuple[str, str]]:
    """(machine, command), in the order of the page."""
    text = (PROJECT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for machine, block in BLOCK.findall(text.replace("https://example.com", SITE)):
        for command in re.findall(r"^\$ (.*)$", block, flags=re.MULTILINE):
            for name in MACHINES if machine == "all" else [machine]:
                yield name, command


def test_the_tutorial_does_what_it_says(terminals: dict[str, Terminal], site: Path) -> None:
    printed = []
    for machine, command in typed():
        if command.startswith("scrapy status") and machine == "second":
            _wait_for_three(terminals[machine])
        if command.startswith("scrapy merge"):
            _bring_together(terminals)
        printed.append((command, terminals[machine].type(command)))
    of_command = dict(printed)
    assert "3 workers" in "".join(text for _, text in printed)
    assert "finished" in of_command["scrapy status site"]
    assert "balance 0" in of_command["scrapy status site"]
    assert "done" in of_command[f"scrapy why site {SITE}/"]
    with (terminals["first"].folder / "output/site/pages.csv").open(newline="") as file:
        urls = [row["url"] for row in csv.DictReader(file)]
    assert len(urls) == len(set(urls)) == PAGES
    assert site.read_text().count('"GET /robots.txt') == 1, "one visitor, however many machines"


def _wait_for_three(terminal: Terminal) -> None:
    """As somebody does who types it again until all have come."""
    wait_for(lambda: "3 workers" in terminal.type("scrapy status site || true"), "three workers")


def _bring_together(terminals: dict[str, Terminal]) -> None:
    for name in ("second", "third"):
        copy = terminals["first"].folder / name
        shutil.copytree(terminals[name].folder / "output/site", copy)
