"""Keys of a terminal, one at a time, as they are pressed."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

AT_ONCE = 4096
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?<=>]*[ -/]*[@-~]|O.)")
"""What arrow and function keys send, and what a terminal answers: of no use here."""


@contextmanager
def pressed_keys(stream: TextIO) -> Iterator[asyncio.Queue[str]]:
    """The keys as they come; Ctrl-C stays a signal. None come from what is not a terminal."""
    keys: asyncio.Queue[str] = asyncio.Queue()
    if not stream.isatty():
        yield keys
        return
    import termios  # not everywhere, but wherever there are terminals
    import tty

    fd, loop = stream.fileno(), asyncio.get_running_loop()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read() -> None:
        data = os.read(fd, AT_ONCE)
        if not data:
            loop.remove_reader(fd)
        for key in SEQUENCE.sub("", decoder.decode(data)):
            keys.put_nowait(key)

    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    loop.add_reader(fd, read)
    try:
        yield keys
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
