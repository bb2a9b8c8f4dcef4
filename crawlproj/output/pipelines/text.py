"""Makes text writable: one clean line where a person reads it, encodable everywhere.

Titles and reasons come from pages and servers: they hold line breaks, control characters and half
characters. Items of other classes keep their text, except for half characters (lone surrogates),
which no encoding can write and which would cost the whole row.
"""

from __future__ import annotations

import re
from typing import Any

from crawlproj.items import OUR_ITEMS, Fields, fields_of

# Every control character and blank, but not U+2028 and its like, which are text to keep.
# A single blank is left as it is: that is what most of them are.
BLANKS = re.compile(r"[\x00-\x1f\x7f-\xa0][\x00-\x20\x7f-\xa0]*+|\x20[\x00-\x20\x7f-\xa0]++")
LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
REPLACEMENT = "\ufffd"

MAX_CHARS = {"title": 500, "reason": 500, "content_type": 100}
DEEPEST_NESTING = 20


def one_line(text: str, max_chars: int) -> str:
    """The text on one line, at most so long; what was cut ends in an ellipsis."""
    if len(text) <= max_chars and text.isprintable() and "  " not in text:
        return text.strip(" ")  # nothing that `BLANKS` matches is printable but a blank
    # A page may call megabytes a title: what cannot be kept need not be cleaned either.
    line = BLANKS.sub(" ", text[: 8 * max_chars]).strip(" ")
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip(" ") + "…"


def encodable(value: Any, nesting: int = 0) -> Any:
    """The value with every string inside it fit for UTF-8; itself when there is nothing to do."""
    if isinstance(value, str):
        if value.isascii() or not LONE_SURROGATES.search(value):
            return value
        return LONE_SURROGATES.sub(REPLACEMENT, value)
    if nesting < DEEPEST_NESTING and type(value) in (list, tuple, dict):
        inside = list(value.items()) if type(value) is dict else value
        clean = [encodable(inner, nesting + 1) for inner in inside]
        if any(new is not old for new, old in zip(clean, inside, strict=True)):
            return type(value)(clean)
    return value


class TextPipeline:
    def process_item(self, item: Any) -> Any:
        values = fields_of(item)
        if isinstance(item, OUR_ITEMS):
            for name, max_chars in MAX_CHARS.items():
                if values.get(name):
                    values[name] = one_line(values[name], max_chars)
        if isinstance(values, Fields) and "".join(map(str, values.values())).isascii():
            return item  # as nearly always: there is no half character to look for
        for name, value in list(values.items()):
            clean = encodable(value)
            if clean is not value:
                values[name] = clean
        return item
