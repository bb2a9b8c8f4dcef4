"""Patterns in which a group has a possessive quantifier, as `(?:…)*+`.

Python 3.11.0 to 3.11.4, and so that of Debian 12, match them wrongly: a turn of the group that
fails half-way counts as far as it came (https://github.com/python/cpython/issues/106052). There,
such a quantifier becomes a greedy one in an atomic group, which means the same and takes longer.
Pure.
"""

from __future__ import annotations

import re
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any, AnyStr

_is_right = re.fullmatch(r"(?:<(?!b))*+<b", "<b") is not None


def compiled(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` would return if it were right; where it is not, `pattern` is None."""
    return re.compile(pattern, flags) if _is_right else mended(pattern, flags)


def mended(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The same pattern without such quantifiers."""
    found: re.Pattern[AnyStr] = _compiler.compile(_without(_parser.parse(pattern, flags)), flags)
    return found


def _without(part: Any) -> Any:
    """A part of what Python reads a pattern as: nodes of an operator and its operands, in lists of
    them that follow each other."""
    if isinstance(part, _parser.SubPattern):
        nodes = [_greedy(part.state, *_without(node)) for node in part.data]
        return _parser.SubPattern(part.state, nodes)
    if isinstance(part, tuple | list):
        return type(part)(map(_without, part))
    return part


def _greedy(state: Any, operator: Any, operands: Any) -> tuple[Any, Any]:
    if operator is not _constants.POSSESSIVE_REPEAT or _compiler._simple(operands[2]):
        return operator, operands  # of a single character it is right everywhere
    loop = _parser.SubPattern(state, [(_constants.MAX_REPEAT, operands)])
    return _constants.ATOMIC_GROUP, loop
