"""Loads the Lua beside this module and runs it, whatever becomes of the server's script cache."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from redis.exceptions import NoScriptError

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = "--include "


class Script:
    """One operation: its text, with what it includes, and the SHA1 by which Redis knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = _assemble((_FOLDER / f"{name}.lua").read_text())
        self.sha1 = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, client: Any, keys: list[str], args: list[Any]) -> Any:
        try:
            return await client.evalsha(self.sha1, len(keys), *keys, *args)
        except NoScriptError:
            return await client.eval(self.text, len(keys), *keys, *args)


def _assemble(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if line.startswith(_INCLUDE):
            included = _FOLDER / line.removeprefix(_INCLUDE).strip()
            lines.append(_assemble(included.read_text()))
        else:
            lines.append(line)
    return "\n".join(lines)


@cache
def script(name: str) -> Script:
    """The script of that name, read once a process."""
    return Script(name)
