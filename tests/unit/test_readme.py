"""The README's table of settings is the one in the code."""

from __future__ import annotations

from pathlib import Path

from crawlproj.config import Option, options

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"


def as_table() -> str:
    lines = ["", "| setting | meaning | default |", "|---|---|---|"]
    lines += [f"| `{one.setting}` | {one.doc} | {_default(one)} |" for one in options()]
    return "\n".join([*lines, "", ""])


def _default(option: Option) -> str:
    if option.default in (None, "", ()):
        return "none"
    if isinstance(option.default, tuple):
        return ", ".join(option.default)
    return str(option.default)


def test_the_readme_lists_every_setting_with_its_default() -> None:
    shown = README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown == as_table()
