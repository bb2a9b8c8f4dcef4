"""What our commands share: how they speak, the crawl's frontier, exit codes.

0 is success, 1 is "no", 2 is wrong use. Whatever is wrong is said in one line on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from redis.exceptions import RedisError
from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from crawlproj.config import Config
from crawlproj.engine.addons import apply_addons
from crawlproj.errors import ConfigError, CrawlError
from crawlproj.frontier.frontier import Frontier
from crawlproj.operate import crawls
from crawlproj.operate.control import Answer
from crawlproj.operate.plain_text import printable
from crawlproj.operate.profiles import refuse_unknown_profile, settle_project
from crawlproj.server import connection
from crawlproj.worker import join

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


class ProjectCommand(ScrapyCommand):
    """A command of ours. Subclasses say in `act` what it does; its exit code is what that returns.

    `arguments` is shown after the command's name in the help, `most_arguments` counts them.
    """

    requires_project = True
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}
    summary = ""
    arguments = ""
    most_arguments: int | None = None

    def syntax(self) -> str:
        return self.arguments

    def short_desc(self) -> str:
        return self.summary

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        hide_usage(parser)
        super().add_options(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        check_project(self.settings)
        super().process_options(args, opts)
        apply_addons(self.settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self._refuse_surplus(args)
        try:
            self.exitcode = self.act(args, opts)
            sys.stdout.flush()
        except ConfigError as error:
            raise UsageError(str(error)) from None
        except BrokenPipeError:
            # Whoever reads has enough, as `head` has; what is left must not fail once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (CrawlError, RedisError, OSError) as error:
            print_error(" ".join(str(error).split()))
            self.exitcode = 1
        except KeyboardInterrupt:
            self.exitcode = 1

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        raise NotImplementedError

    def wrong_use(self, problem: str) -> UsageError:
        """An error that shows how the command is used."""
        return UsageError(f"{problem}: scrapy {self.name} {self.syntax()}")

    @property
    def name(self) -> str:
        """As it is typed."""
        return type(self).__module__.rpartition(".")[2]

    def _refuse_surplus(self, args: list[str]) -> None:
        # Scrapy hands options that it does not know on as arguments.
        for arg in args:
            if arg.startswith("-") and arg != "-":
                raise self.wrong_use(f"no such option {arg}")
        if self.most_arguments is not None and len(args) > self.most_arguments:
            raise self.wrong_use(f"too many arguments, from {args[self.most_arguments]!r} on")


class FrontierCommand(ProjectCommand):
    """A command about one crawl, which is named first. Subclasses say in `work` what to do with
    its frontier."""

    most_arguments: int | None = 1
    may_begin = False
    """True where the crawl need not be there yet."""

    def syntax(self) -> str:
        return f"<crawl> {self.arguments}".strip()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        offer_json(parser)

    def act(self, args: list[str], opts: argparse.Namespace) -> int:
        if not args:
            raise self.wrong_use("give the crawl's name")
        check_crawl(args[0])
        self.check(args[1:], opts)
        return asyncio.run(self._connected(args, opts))

    def check(self, rest: list[str], opts: argparse.Namespace) -> None:
        """Raise for wrong use, before Redis is asked for anything."""

    async def _connected(self, args: list[str], opts: argparse.Namespace) -> int:
        assert self.settings is not None
        async with connected(self.settings, may_begin=self.may_begin) as client:
            frontier = Frontier(client, args[0], f"command-{self.name}")
            if not self.may_begin and not opts.json:
                seeds = await join.seed_list_of(client, self.settings, frontier.crawl)
                await crawls.refuse_unknown(frontier, seeds.key, self.settings)
            return await self.work(frontier, args[1:], opts)

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        raise NotImplementedError


class StateCommand(FrontierCommand):
    """A command that all workers of a crawl obey: `change` tells them (control.py)."""

    change: Callable[[Frontier], Awaitable[Answer]]

    async def work(self, frontier: Frontier, rest: list[str], opts: argparse.Namespace) -> int:
        answer = await self.change(frontier)
        told = {"state": answer.state, **answer.details}
        show(opts, told, f"{frontier.crawl}: {answer.text}")
        return 0 if answer.is_done else 1


@asynccontextmanager
async def connected(
    settings: BaseSettings | None, *, may_begin: bool = False
) -> AsyncIterator[Any]:
    """A client of the Redis that these settings name, once they have been checked."""
    assert settings is not None
    Config.from_settings(settings)
    async with connection.client_of(resolve(settings, may_begin=may_begin)) as client:
        yield client


def offer_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that `show` goes by."""
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def refuse_empty(opts: argparse.Namespace, *names: str) -> None:
    """Refuse options without a value, as an unset variable of a shell leaves them: without the
    option, all would be meant."""
    for name in names:
        if getattr(opts, name) == "":
            raise ConfigError(f"--{name}: it has no value; leave it out, or give one")


def check_crawl(name: str) -> None:
    """Refuse a name that is none of a crawl's: its folder would be that of all crawls."""
    if Path(name).name in ("", ".."):
        raise ConfigError(f"{name!r}: no name of a crawl; scrapy crawls lists those that there are")


def check_file(given: str | None, option: str = "-o") -> None:
    """Refuse a file to write to that cannot be there, before any work is done for it."""
    if given is None:
        return
    if Path(given).is_dir():
        raise ConfigError(f"{option} {given}: that is a folder; give a file")
    if Path(given).exists() and not Path(given).is_file():
        # What is written takes the place of what is there: of a device, too.
        raise ConfigError(f"{option} {given}: that is a device; give a file")
    if not Path(given).parent.is_dir():
        missing = f"there is no folder {Path(given).parent}; make it first"
        raise ConfigError(f"{option} {given}: {missing}")


def check_folder(given: str | None, option: str = "-o") -> None:
    """Refuse a folder to write to that is a file, or a device, before any work is done for it."""
    if given is not None and Path(given).exists() and not Path(given).is_dir():
        raise ConfigError(f"{option} {given}: that is a file; give a folder")


def show(opts: argparse.Namespace, found: Any, text: str) -> None:
    """Print the result: JSON for scripts, text for people."""
    print(json.dumps(found, indent=2) if opts.json else printable(text))


def print_error(text: str) -> None:
    """Say what is wrong, on standard error."""
    print(printable(text), file=sys.stderr)


def hide_usage(parser: argparse.ArgumentParser) -> None:
    """Say what is wrong with the arguments without showing the usage first."""

    def error(message: str) -> NoReturn:
        print_error(" ".join(message.split()))
        sys.exit(2)

    parser.error = error  # type: ignore[method-assign]


def check_profile() -> None:
    """Wrong use, if the profile that was asked for is not there."""
    try:
        refuse_unknown_profile()
    except ConfigError as error:
        raise UsageError(str(error)) from None


def check_project(settings: BaseSettings) -> None:
    """The same; and where no project is, the settings become those of the package."""
    try:
        settle_project(settings)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def resolve(settings: BaseSettings, *, may_begin: bool) -> connection.Resolved:
    """The Redis of this process, and what the user should know of it."""
    resolved = connection.resolve_for_command(settings, may_begin=may_begin)
    if resolved.notice:
        print(resolved.notice, file=sys.stderr)
    return resolved
