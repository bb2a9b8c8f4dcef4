"""Aligned columns for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()
) -> list[str]:
    """Lines under a head, as wide as they have to be; the columns of these numbers, from 0, are
    aligned to the right."""
    lines = [head, *rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if n in numbers else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
