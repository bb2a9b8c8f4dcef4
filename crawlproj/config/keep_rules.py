"""Rules on the attributes of pages: `published within 7 days and not text matches "sponsored"`.

    rule  = part { "or" part }            part = test { "and" test }
    test  = "not" test | "(" rule ")" | NAME judgement
    judgement = "=" | "!=" VALUE | "contains" | "matches" VALUE | "is" ("missing" | "present")
              | "within" NUMBER UNIT | "before" | "after" DATE          (of dates)

A rule is read once, at the start, and refused with the place where it goes wrong. It is asked about
a row of attributes. Expressions of `matches` are RE2's: they take time linear in the text, whatever
they and the text are. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NoReturn

Row = Mapping[str, Any]
Rule = Callable[[Row], bool]

TEXTS = (
    *("url", "title", "description", "language", "author", "owner", "text", "videos", "canonical"),
    "structured",
)
DATES = ("published", "modified", "fetched_at")
NAMES = (*TEXTS, *DATES)
UNITS_H = {"hour": 1, "day": 24, "week": 24 * 7, "month": 24 * 30, "year": 24 * 365}
"""Hours."""
TEXT_JUDGEMENTS = '=, !=, contains "…", matches "…", is missing or is present'
DATE_JUDGEMENTS = "within 7 days, before 2026-01-31, after 2026-01-31, is missing or is present"
KEYWORDS = ("and", "or", "not")

MAX_RULE = 10_000
MAX_EXPRESSION = 1000
"""Characters."""
MAX_DEPTH = 50
MAX_AMOUNT = 100_000
"""Of units of time."""
LONGEST = timedelta(days=365 * 1000)
"""Before any page, and within the calendar."""
MAX_SHOWN = 40

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>!=|[()=])
    |(?P<word>[^\s()="'!]+))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED_QUOTE = re.compile(r"""\\(["'])""")


class RuleError(ValueError):
    """A rule that cannot be read. `str()` says where, and what would be accepted there."""


class Token(NamedTuple):
    """A word, a sign or a quoted text, where it begins, and where it ends."""

    kind: str
    text: str
    start: int
    end: int


def parse_rule(text: str) -> Rule:
    """What a rule says, as a function of a row; raises RuleError."""
    if len(text) > MAX_RULE:
        raise RuleError(f"give a rule of at most {MAX_RULE:,} characters")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._next = self._read()

    def parse(self) -> Rule:
        rule = self._rule()
        if self._next.kind != "end":
            self._refuse('give "and", "or" or nothing more')
        return rule

    # Tokens

    def _read(self) -> Token:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            rest = len(self._text) - len(self._text[self._at :].lstrip())
            kind = "end" if rest == len(self._text) else "wrong"
            return Token(kind, "", rest, len(self._text))
        kind = str(found.lastgroup)
        self._at = found.end()
        return Token(kind, found[kind], found.start(kind), found.end())

    def _take(self) -> Token:
        taken, self._next = self._next, self._read()
        return taken

    def _takes_word(self, *words: str) -> str | None:
        """The next word in lower case, if it is one of these."""
        word = self._next.text.lower() if self._next.kind in ("word", "sign") else ""
        if word not in words:
            return None
        self._take()
        return word

    def _refuse(self, accepted: str, token: Token | None = None) -> NoReturn:
        at = (token or self._next).start
        rest = self._text[at:]
        shown = rest if len(rest) <= MAX_SHOWN else rest[: MAX_SHOWN - 1] + "…"
        place = f"at “{shown}”" if rest else "at its end"
        raise RuleError(f"column {at + 1}, {place}: {accepted}")

    # Grammar

    def _rule(self) -> Rule:
        return _any_of(self._several("or", lambda: _all_of(self._several("and", self._test))))

    def _several(self, word: str, read: Callable[[], Rule]) -> list[Rule]:
        found = [read()]
        while self._takes_word(word):
            found.append(read())
        return found

    def _test(self) -> Rule:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(f"give at most {MAX_DEPTH} parentheses or nots within each other")
        if self._takes_word("not"):
            found = _not(self._test())
        elif self._takes_word("("):
            found = self._rule()
            if not self._takes_word(")"):
                self._refuse('give "and", "or" or ")"')
        else:
            found = self._judgement()
        self._depth -= 1
        return found

    def _judgement(self) -> Rule:
        name = self._next.text.lower() if self._next.kind == "word" else ""
        if name not in NAMES:
            self._refuse(f'give "not", "(" or one of {", ".join(NAMES)}')
        self._take()
        if self._takes_word("is"):
            return self._presence(name)
        return self._of_date(name) if name in DATES else self._of_text(name)

    def _presence(self, name: str) -> Rule:
        word = self._takes_word("missing", "present")
        if word is None:
            self._refuse("give missing or present")
        return lambda row: bool(row.get(name)) is (word == "present")

    def _of_text(self, name: str) -> Rule:
        word = self._takes_word("=", "!=", "contains", "matches")
        if word is None:
            self._refuse(f"give {TEXT_JUDGEMENTS}")
        value = self._value()
        if word == "matches":
            return self._matching(name, value)
        wanted = value.text.casefold()
        if word == "contains":
            return lambda row: any(wanted in text.casefold() for text in _texts(row.get(name)))
        is_equal = word == "="
        return lambda row: (
            is_equal is any(wanted == text.casefold() for text in _texts(row.get(name)))
        )

    def _value(self) -> Token:
        is_one = self._next.kind == "quoted" or (
            self._next.kind == "word" and self._next.text.lower() not in KEYWORDS
        )
        if not is_one:
            self._refuse('give a word, or text in quotes: "…"')
        taken = self._take()
        if taken.kind == "quoted":
            return taken._replace(text=_ESCAPED_QUOTE.sub(r"\1", taken.text[1:-1]))
        return taken

    def _matching(self, name: str, value: Token) -> Rule:
        if len(value.text) > MAX_EXPRESSION:
            self._refuse(f"give an expression of at most {MAX_EXPRESSION:,} characters", value)
        try:
            import re2
        except ImportError:
            self._refuse("matches needs a package: pip install 'crawlproj[attributes]'", value)
        options = re2.Options()
        options.log_errors = False
        try:
            search = re2.compile(value.text, options).search
        except re2.error as error:
            said = error.args[0] if error.args else ""
            said = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
            self._refuse(f"give a regular expression as RE2 reads them ({said})", value)
        return lambda row: any(search(text) is not None for text in _texts(row.get(name)))

    def _of_date(self, name: str) -> Rule:
        word = self._takes_word("within", "before", "after")
        if word is None:
            self._refuse(f"give {DATE_JUDGEMENTS}")
        if word == "within":
            return self._within(name)
        value = self._next
        day = _moment(value.text.strip("\"'"))
        if day is None:
            self._refuse("give a date such as 2026-01-31")
        self._take()
        is_before = word == "before"

        def judge(row: Row) -> bool:
            moment = _moment(row.get(name))
            return moment is not None and (moment < day if is_before else moment >= day)

        return judge

    def _within(self, name: str) -> Rule:
        text = self._next.text
        if not text.isdecimal() or not 0 < int(text[:9]) <= MAX_AMOUNT:
            self._refuse("give a number and a unit, such as 7 days")
        amount = int(self._take().text)
        unit = self._next.text.lower().removesuffix("s")
        if unit not in UNITS_H:
            self._refuse(f"give {', '.join(f'{one}s' for one in UNITS_H)}")
        self._take()
        span = min(timedelta(hours=amount * UNITS_H[unit]), LONGEST)

        def judge(row: Row) -> bool:
            moment, seen = _moment(row.get(name)), _moment(row.get("fetched_at"))
            return moment is not None and seen is not None and moment >= seen - span

        return judge


def _any_of(rules: list[Rule]) -> Rule:
    return rules[0] if len(rules) == 1 else lambda row: any(rule(row) for rule in rules)


def _all_of(rules: list[Rule]) -> Rule:
    return rules[0] if len(rules) == 1 else lambda row: all(rule(row) for rule in rules)


def _not(rule: Rule) -> Rule:
    return lambda row: not rule(row)


def _texts(value: Any) -> list[str]:
    """A value as texts that can be judged: of a list each, of what is structured its JSON."""
    if value is None:
        return []
    if isinstance(value, list):
        return [one for one in value if isinstance(one, str)]
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]


def _moment(value: Any) -> datetime | None:
    """A date or time; without a zone it counts as of UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
