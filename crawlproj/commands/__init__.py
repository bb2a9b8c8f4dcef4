"""The commands of `scrapy` that are ours.

Scrapy imports them all before it runs one: Ctrl-C in that second is answered in a line, too.
"""

from __future__ import annotations

import sys
from types import TracebackType

_otherwise = sys.excepthook


def _say_interrupted(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        _otherwise(kind, error, trace)


sys.excepthook = _say_interrupted
