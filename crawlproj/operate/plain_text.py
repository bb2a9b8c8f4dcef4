"""Text that does nothing to a terminal but show: what the web says may hold its commands."""

from __future__ import annotations

import os
import re
from typing import TextIO

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
"""All but line breaks."""

_DIRECTIONS = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
"""Marks that turn the direction of text, and of what is shown after it."""


def printable(text: str) -> str:
    """A text whose control characters are shown as what they are."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def in_direction(text: str) -> str:
    """A text that turns neither itself nor what is shown after it."""
    return _DIRECTIONS.sub("", text)


def in_one_line(text: str) -> str:
    """A text that is shown, on one line, and does nothing else."""
    return printable(in_direction(" ".join(text.split())))


def is_terminal(stream: TextIO) -> bool:
    """Whether a live view can be drawn there."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
