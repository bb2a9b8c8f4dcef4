"""Who is told of events: a receiver that fails or hangs holds up nobody."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from crawlproj.errors import ConfigError
from crawlproj.operate.hook import ATTEMPTS, MOST_WAITING, Hook, check
from tests.servers.origin import HANG, Origin, Reply, Request

MESSAGE = {"event": "finished", "crawl": "site", "text": "site: finished; $(touch /nowhere)"}


def quick(target: str) -> Hook:
    return Hook(target, answer_s=0.3, between_s=0.001)


async def told(target: str) -> None:
    hook = quick(target)
    hook.send(MESSAGE)
    await hook.close()


async def test_a_url_is_sent_json_and_tried_again_until_it_takes_it() -> None:
    received: list[Request] = []

    def answer(request: Request) -> Reply:
        received.append(request)
        return Reply(status=500 if request.attempt < ATTEMPTS else 204)

    with Origin({"/hook": answer}) as origin:
        await told(origin.url("/hook"))
    assert [json.loads(one.body) for one in received] == [MESSAGE] * ATTEMPTS
    assert received[0].method == "POST"
    assert received[0].headers["content-type"] == "application/json"


async def test_a_receiver_that_hangs_or_refuses_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Origin({"/hang": HANG, "/elsewhere": Reply(302, {"Location": "/hook"})}) as origin:
        await told(origin.url("/hang"))
        await told(origin.url("/elsewhere"))
        assert origin.times_asked("/hook") == 0
    await told(origin.url("/gone"))
    await told("/no/such/command")
    await told(f"{sys.executable} -c 'import time; time.sleep(60)'")
    assert caplog.text.count("was not delivered") == 5 * ATTEMPTS


async def test_a_receiver_that_answers_bit_by_bit_holds_up_nobody_and_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with dripping() as target:
        hook = Hook(target, answer_s=0.3, between_s=0.001)
        for _ in range(MOST_WAITING):
            hook.send(MESSAGE)
        await asyncio.sleep(0)  # all of them begin
        async with asyncio.timeout(10):  # for a failure to end
            await asyncio.to_thread(lambda: None)  # as rows are saved
        assert "was not delivered" not in caplog.text, "it waited until one was given up"
        await hook.close()
    assert caplog.text.count("was not delivered: no answer within 0.3 s") == MOST_WAITING
    assert caplog.text.count("was not delivered") == MOST_WAITING * ATTEMPTS


@contextmanager
def dripping() -> Iterator[str]:
    """A server whose answer goes on for long."""
    held: list[socket.socket] = []
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.wait(0.05):
            with suppress(BlockingIOError):
                while True:
                    held.append(listening.accept()[0])
                    held[-1].sendall(b"HTTP/1.1 200 OK\r\nX: ")
            for one in held:
                with suppress(OSError):
                    one.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        listening.setblocking(False)
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            is_over.set()
            thread.join()
            for one in held:
                one.close()


async def test_a_command_has_the_event_and_no_shell(tmp_path: Path) -> None:
    file = tmp_path / "told"
    code = (
        "import os, sys; open(sys.argv[1], 'w').write(os.environ['NOTIFY_TEXT'] + sys.stdin.read())"
    )
    await told(f'{sys.executable} -c "{code}" {file}')
    assert file.read_text() == MESSAGE["text"] + json.dumps(MESSAGE)


async def test_more_than_a_few_that_wait_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with Origin({"/hang": HANG}) as origin:
        hook = quick(origin.url("/hang"))
        for _ in range(MOST_WAITING + 3):
            hook.send(MESSAGE)
        assert caplog.text.count("does not answer") == 3
        await hook.close()


@pytest.mark.parametrize(
    "target", ["ftp://example.com/hook", "/no/such/command --mail", "tell 'me", " "]
)
def test_what_can_be_told_nothing_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match="give an http"):
        check(target)


def test_a_url_and_a_command_can_be_told() -> None:
    check("https://hooks.example.com/crawls")
    check(f"{sys.executable} -c pass")
    check("cat -")
