"""Asks the server of scrapy_process.py for a command. As a program, it stands for `scrapy` on the
PATH of a test: run with `python -I -S`, it takes hardly longer than a shell.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

SERVER = "SCRAPY_SERVER"
"""The environment variable with the number of the open connection to the server."""


def ask(
    server: socket.socket, words: list[str], env: dict[str, str], cwd: str, files: list[int]
) -> tuple[int, int]:
    """Have `scrapy WORDS` begun; returns its process id, and a pipe that will tell how it ended."""
    read, write = os.pipe()
    request = json.dumps({"words": words, "env": env, "cwd": cwd}).encode()
    socket.send_fds(server, [request], [*files, write])
    os.close(write)
    pid = b""
    while not pid.endswith(b"\n"):
        piece = os.read(read, 1)
        if not piece:
            raise ConnectionError("the server of scrapy processes has died: see its traceback")
        pid += piece
    return int(pid), read


def main() -> None:
    server = socket.socket(fileno=os.dup(int(os.environ[SERVER])))
    pid, status = ask(server, sys.argv[1:], dict(os.environ), os.getcwd(), [0, 1, 2])  # noqa: PTH109
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: os.kill(pid, received))
    code = os.waitstatus_to_exitcode(int(os.read(status, 64)))
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
