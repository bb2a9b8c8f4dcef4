"""Dates as pages write them → ISO 8601. Pure."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime

MAX_DATE = 60
"""Characters of a date; what is longer is none."""
FIRST_YEAR = 1990
"""Older dates on pages are about something else."""

# fmt: off
_MONTHS = {
    1: "january januar jänner janvier enero gennaio janeiro januari января stycznia ocak",
    2: "february februar février fevrier febrero febbraio fevereiro februari февраля lutego şubat",
    3: "march märz maerz mars marzo março marco maart mars марта marca mart",
    4: "april avril abril aprile апреля kwietnia nisan",
    5: "may mai mayo maggio maio mei maj мая maja mayıs",
    6: "june juni juin junio giugno junho июня czerwca haziran",
    7: "july juli juillet julio luglio julho июля lipca temmuz",
    8: "august août aout agosto augustus augusti августа sierpnia ağustos",
    9: "september septembre septiembre setiembre settembre setembro сентября września eylül",
    10: "october oktober octobre octubre ottobre outubro октября października ekim",
    11: "november novembre noviembre novembro ноября listopada kasım",
    12: "december dezember décembre decembre diciembre dicembre dezembro декабря grudnia aralık",
}
# fmt: on
_MONTH = {name: number for number, names in _MONTHS.items() for name in names.split()}
_ABBREVIATED = {"sept": 9, "okt": 10, "dez": 12, "dec": 12, "mrz": 3, "juil": 7}
_NAME = r"([^\W\d_]{3,12})\.?"
_DAY_FIRST = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th|er|º|\.)?\s+(?:de\s+)?{_NAME},?\s+(?:de\s+)?(\d{{4}})\b"
)
_MONTH_FIRST = re.compile(rf"\b{_NAME}\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})\b")
_YEAR_FIRST = re.compile(r"\b(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})")
_DAY_DOTS = re.compile(r"\b(\d{1,2})[./](\d{1,2})[./](\d{4})\b")
_PACKED = re.compile(r"(\d{4})(\d\d)(\d\d)")
_IN_PATH = re.compile(r"/((?:19|20)\d\d)[/-]([01]?\d)[/-]([0-3]?\d)(?=[/._-]|$)")


def read_date(text: str) -> str | None:
    """A date, with its time if it has one: in UTC where it names its zone (`…Z`), else as it
    stands. None for what is no date, or none that a page can have."""
    text = text.strip()
    if not text or len(text) > MAX_DATE:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _from_mail(text) or _from_words(text)
    is_day = len(text) <= 10
    return _shown(moment, is_day=is_day)


def date_in_path(url: str) -> str | None:
    """The day that many sites have in the paths of what they publish."""
    found = _IN_PATH.search(url)
    return _day(int(found[1]), int(found[2]), int(found[3])) if found else None


def _shown(moment: datetime, *, is_day: bool) -> str | None:
    if not _is_likely(moment.date()):
        return None
    if is_day:
        return moment.date().isoformat()
    try:
        zoned = moment if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None
    return zoned.isoformat(timespec="seconds").replace("+00:00", "Z")


def _is_likely(day: date) -> bool:
    latest = datetime.now(UTC).date() + timedelta(days=2)
    return date(FIRST_YEAR, 1, 1) <= day <= latest


def _from_mail(text: str) -> str | None:
    """As in mail and HTTP: `Tue, 17 Nov 2026 23:49:02 GMT`."""
    if ":" not in text:
        return None
    try:
        return _shown(parsedate_to_datetime(text), is_day=False)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _from_words(text: str) -> str | None:
    if found := _YEAR_FIRST.search(text) or _PACKED.fullmatch(text):
        return _day(int(found[1]), int(found[2]), int(found[3]))
    if found := _DAY_FIRST.search(text):
        return _day(int(found[3]), _month(found[2]), int(found[1]))
    if found := _MONTH_FIRST.search(text):
        return _day(int(found[3]), _month(found[1]), int(found[2]))
    if found := _DAY_DOTS.search(text):
        first, second, year = int(found[1]), int(found[2]), int(found[3])
        # Where only one order makes a date, that; else the day comes first, as in most countries.
        return _day(year, second, first) or _day(year, first, second)
    return None


def _month(name: str) -> int:
    name = name.lower()
    if number := _MONTH.get(name) or _ABBREVIATED.get(name):
        return number
    is_short = len(name) == 3
    found = {one for known, one in _MONTH.items() if is_short and known.startswith(name)}
    return found.pop() if len(found) == 1 else 0


def _day(year: int, month: int, day: int) -> str | None:
    try:
        found = date(year, month, day)
    except ValueError:
        return None
    return found.isoformat() if _is_likely(found) else None
