"""Redis is asked once for all who look, and not at all while nobody does."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from crawlproj.errors import CrawlError
from crawlproj.operate.dashboard import polling
from crawlproj.operate.dashboard.polling import Channel, Channels, News, Remembered

SOON_S = 5.0


class Source:
    """Something to read, which counts how often it is."""

    def __init__(self) -> None:
        self.reads = 0
        self.error: Exception | None = None

    async def __call__(self) -> Any:
        self.reads += 1
        if self.error:
            raise self.error
        return self.reads


async def test_many_viewers_cost_as_many_readings_as_one_and_all_are_told() -> None:
    source = Source()
    channel = Channel(source, every_s=0.01)

    async def view() -> list[int]:
        async with channel.watched():
            news = [await channel.next_news(0, SOON_S)]
            news.append(await channel.next_news(news[0].number, SOON_S))
            return [one.value for one in news]

    seen = await asyncio.gather(*(view() for _ in range(50)))
    assert seen == [[1, 2]] * 50
    assert source.reads <= 4


async def test_nothing_is_read_once_nobody_looks() -> None:
    source = Source()
    channels = Channels(lambda _: Channel(source, every_s=0.001), most_viewers=1)
    async with channels.watched("c") as channel:
        await channel.next_news(0, SOON_S)
        assert channels.is_full
    reads = source.reads
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert source.reads == reads
    assert not channels.is_full


async def test_what_was_read_last_stays_while_redis_is_away_and_since_when_is_told() -> None:
    source = Source()
    channel = Channel(source, every_s=0.001)
    async with channel.watched():
        first = await channel.next_news(0, SOON_S)
        source.error = CrawlError("gone\nfor now")
        away = await _until_away(channel, first)
        later = await channel.next_news(away.number, SOON_S)
        assert (away.error, away.value) == ("gone for now", later.value)
        assert away.error_since_s == later.error_since_s > 0
        source.error = None
        while (back := await channel.next_news(channel.news.number, SOON_S)).error:
            pass
        assert (back.error, back.error_since_s) == ("", 0.0)


async def test_a_redis_that_hangs_is_told_of_before_it_is_given_up_and_asked_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "SILENT_S", 0.02)
    monkeypatch.setattr(polling, "PATIENCE_S", 0.2)
    hangs = asyncio.Event()
    source = Source()

    async def read() -> Any:
        if hangs.is_set():
            await asyncio.sleep(SOON_S)
        return await source()

    channel = Channel(read, every_s=0.001)
    async with channel.watched():
        first = await channel.next_news(0, SOON_S)
        hangs.set()
        silent = await _until_away(channel, first)
        assert "no answer for" in silent.error
        given_up = await channel.next_news(silent.number, SOON_S)
        assert "no answer within" in given_up.error
        assert given_up.error_since_s == silent.error_since_s < time.time()
        assert given_up.read_at_s == silent.read_at_s <= silent.error_since_s + 0.1
        hangs.clear()
        async with asyncio.timeout(2.0):
            while (back := await channel.next_news(channel.news.number, SOON_S)).error:
                pass
        assert back.read_at_s > given_up.read_at_s


async def test_one_slow_reading_is_not_followed_by_a_long_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "REST", 1000)
    source = Source()

    async def read() -> Any:
        if source.reads in (0, 3):
            await asyncio.sleep(0.2)  # a rest by these would be of 200 s
        return await source()

    channel = Channel(read, every_s=0.001)
    async with channel.watched():
        for number in range(6):
            assert (await channel.next_news(number, 60.0)).number == number + 1


async def test_what_has_just_changed_is_read_at_once_also_while_it_is_being_read() -> None:
    source, goes_on = Source(), asyncio.Event()

    async def read() -> Any:
        before = await source()
        await goes_on.wait()
        return before

    channels = Channels(lambda _: Channel(read, every_s=3600), most_viewers=9)
    async with channels.watched("c") as channel:
        async with asyncio.timeout(60):
            while not source.reads:
                await asyncio.sleep(0)
        channels.read_now("c", "of which nobody watches any")
        goes_on.set()
        assert (await channel.next_news(1, 60.0)).value == 2
        channels.read_now("c")
        assert (await channel.next_news(2, 60.0)).value == 3


async def _until_away(channel: Channel, news: News) -> News:
    while not news.error:
        news = await channel.next_news(news.number, SOON_S)
    return news


async def test_all_who_ask_the_same_within_a_moment_share_an_answer() -> None:
    source, remembered = Source(), Remembered[int](for_s=60)
    answers = await asyncio.gather(*(remembered.get("a", source) for _ in range(20)))
    assert (answers, source.reads) == ([1] * 20, 1)
    assert await remembered.get("b", source) == 2
    assert await remembered.get("a", source) == 1


async def test_an_error_is_not_remembered() -> None:
    source, remembered = Source(), Remembered[int](for_s=60)
    source.error = CrawlError("no")
    with pytest.raises(CrawlError):
        await remembered.get("a", source)
    source.error = None
    assert await remembered.get("a", source) == 2


async def test_an_answer_from_before_a_change_is_not_given_after_it() -> None:
    source, remembered, goes_on = Source(), Remembered[int](for_s=60), asyncio.Event()

    async def slowly() -> int:
        before: int = await source()
        await goes_on.wait()
        return before

    older = asyncio.ensure_future(remembered.get("a", slowly))
    while not source.reads:
        await asyncio.sleep(0)
    remembered.forget("a")
    assert await remembered.get("a", source) == 2
    goes_on.set()
    assert await older == 1
    assert await remembered.get("a", source) == 2
