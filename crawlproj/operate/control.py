"""What a user has all workers of a crawl do: pause, go on, stop. Each returns what came of it, so
that commands and views say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from crawlproj.frontier import noticeboard
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import crawls, status
from crawlproj.plural import counted


class Answer(NamedTuple):
    """The crawl's state afterwards, whether it is what was wanted, a sentence for people, and what
    more there is for scripts."""

    state: str
    is_done: bool
    text: str
    details: Mapping[str, Any] = {}


async def pause(frontier: Frontier) -> Answer:
    """Keep all workers from beginning another page."""
    state = await crawls.set_state(frontier, "paused", ["running", "paused"])
    is_paused = state == "paused"
    text = "paused; go on with scrapy resume" if is_paused else f"cannot be paused: it is {state}"
    return Answer(state, is_paused, text)


async def resume(frontier: Frontier) -> Answer:
    """Have them go on; says what to type where there is none."""
    state = await crawls.set_state(frontier, "running", ["paused", "running"])
    is_running, workers = state == "running", (await status.read(frontier)).alive
    text = "running" if is_running else f"cannot be resumed: it is {state}"
    if is_running and not workers:
        text = "no longer paused, and no worker is running"
    if state == "stopped" or (is_running and not workers):
        text += f"; start workers with {await crawls.start_command(frontier)}"
    return Answer(state, is_running, text, {"workers": workers})


async def stop(frontier: Frontier) -> Answer:
    """Have them finish what they hold and leave; also those that wait for the next crawl."""
    if not await frontier.attach():
        return Answer("empty", False, "there is nothing to stop")
    state = await frontier.set_state("stopping", ["running", "paused", "stopping"])
    texts = {
        "stopping": "workers finish what they hold and leave",
        "stopped": "stopped; no worker was running",
        "finished": "it has finished already",
    }
    waiting = await noticeboard.alive(frontier) if state == "finished" else 0
    if waiting:  # set_state.lua has dismissed them
        leave = "leaves" if waiting == 1 else "leave"
        texts[state] += f"; {counted(waiting, 'worker')} that waited for seeds {leave}"
    return Answer(state, state != "finished" or bool(waiting), texts[state])
