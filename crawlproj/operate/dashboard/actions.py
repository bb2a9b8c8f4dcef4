"""What a user does to a crawl from the dashboard: the same as the commands of these names do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from scrapy.settings import Settings

from crawlproj.config import Config
from crawlproj.errors import ConfigError
from crawlproj.frontier.frontier import Frontier
from crawlproj.frontier.messages import DeadLetter
from crawlproj.frontier.pacing import Overrides, normal_host
from crawlproj.operate import control, crawls, dead_letters, pattern_release
from crawlproj.operate.dashboard.answers import Answers, selection
from crawlproj.operate.seeding import SeedAdder
from crawlproj.output.folder import epoch_of
from crawlproj.plural import counted
from crawlproj.worker import join

MOST_SEEDS = 10_000
MOST_LETTERS = 10_000
"""Moved by one action."""


_ELSEWHERE = (
    "scrapy merge leaves out their rows by a note in {} of the dashboard's machine, which has no "
    "files of this crawl: give it that folder, too"
)


class Done(NamedTuple):
    """Whether it was, and a sentence for who asked for it."""

    is_done: bool
    text: str


class Actions:
    """Each takes the crawl's name and what the browser has sent; raises ConfigError or UrlError for
    what cannot be used."""

    def __init__(self, answers: Answers, settings: Settings) -> None:
        self._answers = answers
        self._settings = settings
        self._by_name = {
            "pause": self._pause,
            "resume": self._resume,
            "stop": self._stop,
            "seeds": self._add_seeds,
            "pace": self._change_pace,
            "retry": self._retry,
            "forget": self._forget,
            "release": self._release,
        }

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    async def do(self, name: str, crawl: str, given: Mapping[str, Any]) -> Done:
        """Do it to a crawl that is there."""
        return await self._by_name[name](await self._answers.known(crawl), given)

    async def _pause(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        return _answered(await control.pause(frontier))

    async def _resume(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        return _answered(await control.resume(frontier))

    async def _stop(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        return _answered(await control.stop(frontier))

    async def _add_seeds(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        lines = [line.strip() for line in _text(given, "urls").splitlines()]
        urls = [line for line in lines if line and not line.startswith("#")]
        if not urls:
            raise ConfigError("give at least one URL, one a line")
        if len(urls) > MOST_SEEDS:
            raise ConfigError(f"give at most {MOST_SEEDS:,} at once, or scrapy seed -f FILE")
        seeds = await join.seed_list_of(frontier.client, self._settings, frontier.crawl)
        adding = await SeedAdder.begin(frontier, seeds, self._settings)
        refused: list[str] = []
        adding.on_refused = lambda seed, reason: refused.append(f"{seed}: {reason}")
        await adding.add(urls, lambda _: True)
        known = adding.given - adding.new - adding.refused
        text = f"{adding.new} new, {known} known already, {adding.refused} refused"
        return Done(not refused, "; ".join([text, *refused[:5]]))

    async def _change_pace(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        host, values = _text(given, "host"), _pace(given)
        if not host:
            raise ConfigError("give a host, such as example.com or *.example.com")
        name = _checked_host(host.partition("://")[2] or host, values)
        if not await frontier.attach():
            return Done(False, "the crawl has not begun")
        await frontier.change_pace(name, values or None)
        text = ", ".join(f"{key} {value}" for key, value in values.items())
        return Done(True, f"{name} has {text} from now on" if text else f"{name} is as configured")

    async def _retry(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        letters = await self._letters(frontier, given)
        count = await dead_letters.retry(frontier, letters)
        text = f"{count:,} queued again{await crawls.next_step(frontier, count)}"
        return Done(count > 0, text + _more(letters))

    async def _forget(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        letters = await self._letters(frontier, given)
        folder = Config.from_settings(self._settings).folder_of(frontier.crawl)
        has_files = bool(epoch_of(folder))
        count = await dead_letters.forget(frontier, letters, folder)
        elsewhere = "" if has_files or not count else f"; {_ELSEWHERE.format(folder)}"
        return Done(count > 0, f"{count:,} forgotten{elsewhere}{_more(letters)}")

    async def _letters(self, frontier: Frontier, given: Mapping[str, Any]) -> list[DeadLetter]:
        """Those that are named, or all of a reason and a host."""
        named = _ids(given)
        if named == set() or not await frontier.attach():
            return []
        wanted = selection(_text(given, "reason"), _text(given, "host"))
        found: list[DeadLetter] = []
        async for letter in dead_letters.find(frontier, wanted):
            if named is None or f"{letter.shard}-{letter.number}" in named:
                found.append(letter)
            if len(found) >= (len(named) if named else MOST_LETTERS):
                break
        return found

    async def _release(self, frontier: Frontier, given: Mapping[str, Any]) -> Done:
        name = _text(given, "pattern")
        held = await pattern_release.find(frontier) if await frontier.attach() else []
        wanted = [one for one in held if pattern_release.name(one) == name]
        queued = await pattern_release.release(frontier, wanted)
        text = f"{counted(queued, 'URL')} queued{await crawls.next_step(frontier, queued)}"
        return Done(bool(wanted), text if wanted else "no such pattern is set aside")


def _answered(answer: control.Answer) -> Done:
    return Done(answer.is_done, answer.text)


def _more(letters: list[DeadLetter]) -> str:
    return "; there may be more, do it again" if len(letters) >= MOST_LETTERS else ""


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name) or ""
    if not isinstance(value, str):
        raise ConfigError(f"{name}: give a text")
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON can spell
        raise ConfigError(f"{name}: it has a character that is none") from None
    return value.strip()


def _ids(given: Mapping[str, Any]) -> set[str] | None:
    """The letters that are named, which may be none; None if they are not named at all."""
    ids = given.get("ids")
    if ids is None:
        return None
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise ConfigError("ids: give a list of texts, as /api/dead names them")
    return set(ids)


def _pace(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given of it; nothing takes back what was changed."""
    values: dict[str, Any] = {}
    try:
        if (delay := given.get("delay")) not in (None, ""):
            values["delay"] = float(delay)
        if (per_host := given.get("per_host")) not in (None, ""):
            values["per_host"] = int(per_host)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError("give a delay in seconds and a number of connections") from None
    return values


def _checked_host(host: str, values: dict[str, Any]) -> str:
    try:
        Overrides({host: values})
        return normal_host(host)
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("POLITENESS_OVERRIDES: ")) from None
