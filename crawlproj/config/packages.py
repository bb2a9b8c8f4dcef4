"""Packages that only some crawls need, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from crawlproj.errors import ConfigError

ATTRIBUTES = ("resiliparse",)
RENDER = ("playwright", "psutil")


def need_packages(wanted_by: str, names: tuple[str, ...], extra: str) -> None:
    """Raise ConfigError, which says what to install, unless all of these are there. Nothing is
    imported."""
    if any(find_spec(name) is None for name in names):
        raise ConfigError(
            f"{wanted_by}: needs packages that are not installed: pip install 'crawlproj[{extra}]'"
        )
