"""What others ask about the settings as a whole, or about one of them before all are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from crawlproj.config import environment, misspelt, names
from crawlproj.config.kinds import parsed
from crawlproj.config.options import Config
from crawlproj.errors import ConfigError

if TYPE_CHECKING:
    from scrapy import Spider


CRAWL = "crawl"
"""The argument that names the crawl, of every spider."""
SEEDS = "seeds"
"""The argument without which a worker waits for seeds."""


class Option(NamedTuple):
    """One setting as the documentation shows it."""

    setting: str
    argument: str | None
    default: Any
    doc: str


def checked(name: str, value: Any) -> Any:
    """A field's value that comes from elsewhere than the settings, checked as they are. What is
    wrong with it is said by the name of its argument, as users know it."""
    spec = next(spec for spec in fields(Config) if spec.name == name)
    shown = spec.metadata["argument"] or name
    return value if value is None else parsed(shown, value, spec.metadata["accepts"])


def options() -> list[Option]:
    """Every setting, for the documentation; those that are parts of their own come last."""
    return [
        Option(
            spec.metadata["setting"], spec.metadata["argument"], spec.default, spec.metadata["doc"]
        )
        for spec in sorted(fields(Config), key=lambda spec: spec.name not in vars(Config))
    ]


def asked_for(settings: BaseSettings) -> set[str]:
    """The fields of Config that the user has set for this very start, by -a or -s."""
    wanted = SETTINGS_PRIORITIES["cmdline"]
    return {
        spec.name
        for spec in fields(Config)
        if (settings.getpriority(spec.metadata["setting"]) or 0) >= wanted
    }


def crawl_name(settings: Mapping[str, Any], spider: Spider | type[Spider]) -> str:
    """The crawl that a spider works at: what its keys in Redis, its folder and its logs are called
    by. Everybody who needs the name asks here."""
    return str(environment.given(settings, "CRAWL_NAME") or spider.name)


def arguments() -> dict[str, str]:
    """Argument of the spider -> the setting of the same meaning."""
    return {option.argument: option.setting for option in options() if option.argument}


def names_connections(settings: Mapping[str, Any]) -> bool:
    """Whether the user has said how many connections a host may have."""
    return environment.given(settings, "POLITENESS_PER_HOST") not in (None, "")


def names_content_types(settings: Mapping[str, Any]) -> bool:
    """Whether the user has said of which content the body is read."""
    return environment.given(settings, "CRAWL_CONTENT_TYPES") is not None


def user_agent_of(settings: BaseSettings) -> str:
    """Whom robots.txt files, and what pages say to robots, are read for."""
    return str(settings.get("ROBOTSTXT_USER_AGENT") or settings["USER_AGENT"])


def take_arguments(settings: BaseSettings, given: Mapping[str, Any]) -> None:
    """Make settings of the arguments that a spider was given by `-a`; stop at a misspelt one, and
    at one without a value."""
    refuse_unknown_arguments(given)
    for name, value in given.items():
        _refuse_empty(name, value)
        settings.set(arguments()[name], value, priority="cmdline")


def _refuse_empty(name: str, value: Any) -> None:
    """As an unset variable of a shell leaves it: without the argument there would be no limit, and
    nothing to begin with."""
    if not isinstance(value, str) or value.strip(" ,\t\n"):
        return
    if name == SEEDS:
        text = "give URLs, or leave it out to wait for seeds that are pushed"
    else:
        spec = next(spec for spec in fields(Config) if spec.metadata["argument"] == name)
        text = f"{spec.metadata['accepts'].expected}, or leave it out"
    raise ConfigError(f"-a {name}={value}: {text}")


def take_crawl_name(settings: BaseSettings, given: Mapping[str, Any]) -> None:
    """The same of the one argument that every spider has: those of others are their own affair."""
    if CRAWL in given:
        take_arguments(settings, {CRAWL: given[CRAWL]})


def refuse_unknown_arguments(given: Iterable[str]) -> None:
    """Stop at a misspelt `-a`, with the nearest real one."""
    known = arguments()
    for name in given:
        if name not in known:
            raise ConfigError(f"-a {name}=…: no such argument{misspelt.hint(name, known)}")


def unknown_names(settings: Mapping[str, Any]) -> list[str]:
    """Names that begin like ours and are not; raises ConfigError for one that looks like a slip."""
    return names.unknown_names(settings, [option.setting for option in options()])


def doubtful_variables() -> list[str]:
    """What to say of variables of the environment that resemble our settings and are none."""
    return environment.doubts([option.setting for option in options()], names.PREFIXES)
