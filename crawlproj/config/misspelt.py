"""Names that are meant to be ours and are not, told from those of others. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

LETTERS_A_SLIP = 5
"""A name may have one slip in so many letters, and one in any case, to be taken for a slip."""


def hint(name: str, known: Iterable[str]) -> str:
    """What to say after a name that is unknown: the nearest one that is there, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(names))}"


def meant(name: str, known: Iterable[str], prefixes: Sequence[str]) -> str | None:
    """The known name that this one is a slip of: a few letters wrong, or another prefix."""
    own = _without(prefixes, name)
    most = max(1, len(own) // LETTERS_A_SLIP)
    slips = [(_slips(own, _without(prefixes, one)), one) for one in known]
    fewest, nearest = min(slips, default=(most + 1, ""))
    return nearest if fewest <= most else None


def _without(prefixes: Sequence[str], name: str) -> str:
    return next((name[len(one) :] for one in prefixes if name.startswith(one)), name)


def _slips(written: str, meant: str) -> int:
    """Letters that are wrong, missing, too many, or in the place of their neighbour."""
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for at, letter in enumerate(written, 1):
        before, last, row = row, before, [at]
        for to, wanted in enumerate(meant, 1):
            slips = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            is_swapped = last and to > 1 and letter == meant[to - 2] and written[at - 2] == wanted
            row.append(min(slips, last[to - 2] + 1) if is_swapped else slips)
    return row[-1]
