"""Bugs that the state machine must find, planted in a copy of the scripts or in a worker.

Each is a mistake that crawl frontiers in use make. A script is changed by replacing a piece of its
text, which must be there: a script that has moved on needs its bug moved along.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from crawlproj.frontier import scripts
from crawlproj.worker.exchange import Worker
from tests.contract.machine import TIMEOUT_MINUTES, FrontierMachine, SpeculatingMachine
from tests.lua.helpers import MINUTE_MS


class SettlesFirst(Worker):
    """Ends a page before the links that it found are in the frontier."""

    async def flush(self, *, in_any_case: bool = False) -> None:
        delivery = self._delivery
        for ended in delivery.outbox.ended:
            ended.needs = 0
        judged = await delivery._judge_ended()
        writing = asyncio.create_task(delivery._write_rows(judged))
        await delivery._settle_ended(judged, writing)
        await super().flush(in_any_case=in_any_case)


class SettlingFirst(FrontierMachine):
    worker_class = SettlesFirst


@dataclass(frozen=True)
class Bug:
    name: str
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    machine: type[FrontierMachine] = FrontierMachine

    def plant(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> type[FrontierMachine]:
        """Put it in place for one test; returns the machine that runs with it."""
        lua = folder / "lua"
        shutil.copytree(scripts._FOLDER, lua)
        for name, (right, wrong) in self.changes.items():
            text = (lua / name).read_text()
            assert text.count(right) == 1, f"{name} no longer has the line to be spoilt: {right}"
            (lua / name).write_text(text.replace(right, wrong))
        monkeypatch.setattr(scripts, "_FOLDER", lua)
        monkeypatch.setattr(scripts, "script", scripts.cache(scripts.Script))
        monkeypatch.setattr("crawlproj.frontier.script_calls.script", scripts.script)
        monkeypatch.setattr("tests.contract.mortal.script", scripts.script)
        return self.machine


PLANTED = [
    Bug("a page is settled before its links are pushed", machine=SettlingFirst),
    Bug(
        "a lease is settled by whoever names it",
        {
            "settle.lua": (
                "for i, packed in ipairs(read_fields(held, tokens)) do\n",
                "for _, token in ipairs(tokens) do\n"
                "  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do\n"
                "    if redis.call('HEXISTS', LEASED .. worker, token) == 1 then\n"
                "      held = LEASED .. worker\n"
                "    end\n"
                "  end\n"
                "end\n"
                "for i, packed in ipairs(read_fields(held, tokens)) do\n",
            )
        },
    ),
    Bug(
        "both who hold a URL settle it",
        {"_copies.lua": ("    save_twin(twin, twin.lease[3], twins.OUTRUN)\n", "")},
        SpeculatingMachine,
    ),
    Bug(
        "a lease ends when it is old, though its worker lives",
        {
            "lease.lua": (
                "group and cmsgpack.pack(name, level, entry, false, group) "
                "or pack_url(name, level, entry)\n",
                "cmsgpack.pack(name, level, entry, false, group or false, NOW)\n",
            ),
            "reclaim.lua": (
                "count('reclaimed', queued + dead)\n",
                "for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do\n"
                "  local held = redis.call('HGETALL', LEASED .. worker)\n"
                "  for i = 1, #held, 2 do\n"
                "    local since = select(6, cmsgpack.unpack(held[i + 1]))\n"
                f"    if NOW - since > {TIMEOUT_MINUTES * MINUTE_MS} then\n"
                "      take_back(held[i], held[i + 1], (i - 1) / 2)\n"
                "      redis.call('HDEL', LEASED .. worker, held[i])\n"
                "    end\n"
                "  end\n"
                "end\n"
                "count('reclaimed', queued + dead)\n",
            ),
        },
    ),
]
