"""What a URL shows before it is fetched: media, a trap, its pattern. Pure.

A site without end shows in its URLs: paths that repeat themselves, ever more parameters, or one
form filled with ever new numbers. `pattern_of` gives that form; patterns.py watches what comes of
it.
"""

from __future__ import annotations

import re
from collections import Counter

from crawlproj.config.choices import MAX_DEPTH, MAX_PARAMS, MAX_REPEATS

MAX_PATTERN = 200
"""Characters of a pattern; longer ones that begin alike are taken for one."""

MOST_FOLDERS = 3
"""Of a path that are looked at as copies of others."""

_MEDIA = re.compile(
    r"\.(?:apng|avif|bmp|gif|ico|jpe?g|png|psd|svgz?|tiff?|webp|heic|raw|eps"
    r"|aac|aiff?|flac|m4a|midi?|mp3|og[agv]|opus|wav|wma"
    r"|3gp|avi|flv|m4v|mkv|mov|mp4|mpe?g|m3u8?|ts|webm|wmv|swf"
    r"|7z|apk|bin|bz2|deb|dmg|exe|gz|iso|jar|msi|rar|rpm|tar|tgz|xz|zip|zst"
    r"|eot|otf|ttf|woff2?)"
)
_DOCUMENTS = re.compile(
    r"\.(?:csv|docx?|epub|mobi|od[pst]|pdf|pp[st]x?|ps|rtf|xlsx?|djvu|css|m?js|map|wasm)"
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TOKEN = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]*+[0-9][0-9A-Za-z]*+")
"""Letters and digits, with a digit among them: nothing is done to words."""
_UUID_DASHES = 4
_NUMBER = re.compile(r"[0-9]+")
_HEX = frozenset("0123456789abcdefABCDEF")
_ANY_QUERY = "?*"


def looks_like_trap(
    path: str,
    *,
    max_depth: int = MAX_DEPTH,
    max_repeats: int = MAX_REPEATS,
    max_params: int = MAX_PARAMS,
) -> str | None:
    """Why this path (with its query) seems made up by a site without end, or None."""
    path, _, query = path.partition("?")
    segments = path.split("/")[1:]
    if len(segments) > max_depth:
        return "trap-depth"
    repeated = len(segments) - len(set(segments))
    if repeated >= max_repeats and max(Counter(segments).values()) > max_repeats:
        return "trap-repeat"
    return "trap-params" if query.count("&") >= max_params else None


def is_media(path: str) -> bool:
    """Whether the path ends like an image, sound, film, archive or font."""
    return _ends(_MEDIA, path)


def is_document(path: str) -> bool:
    """Whether the path ends like a document, style or code: no page, but no media either."""
    return _ends(_DOCUMENTS, path)


def _ends(extensions: re.Pattern[str], path: str) -> bool:
    name = path.partition("?")[0]
    dot = name.rfind(".", name.rfind("/"))
    return dot >= 0 and extensions.fullmatch(name[dot:].lower()) is not None


def pattern_of(path: str) -> str:
    """The form of a path with its query: numbers and ids as `#`, parameters by name, sorted.

    `/calendar/2025-03?view=day&user=7` → `/calendar/#-#?user&view`
    """
    path, mark, query = path.partition("?")
    form = _UUID.sub("#", path) if path.count("-") >= _UUID_DASHES else path
    form = _TOKEN.sub(_generalised, form)
    if mark:
        names = {_TOKEN.sub(_generalised, part.partition("=")[0]) for part in query.split("&")}
        form += mark + "&".join(sorted(names))
    return form[:MAX_PATTERN]


def any_query(path: str) -> str:
    """The pattern of all URLs that differ from this one in nothing but their query."""
    return path.partition("?")[0][: MAX_PATTERN - len(_ANY_QUERY)] + _ANY_QUERY


def forms_of_copies(path: str) -> list[str]:
    """The forms that a path has in common with others that a site makes copies by, the narrowest
    first: its pattern, all paths with parameters of these names, and the folders it is in.

    `/docs/print/12?view=a` → `/docs/print/#?view`, `*?view`, `/docs/print/*`, `/docs/*`
    """
    pattern = pattern_of(path)
    forms = [pattern] if pattern != path else []
    folders, mark, _ = path.partition("?")
    if mark:
        forms.append(f"*?{pattern.partition('?')[2]}")
    segments = folders.split("/")[1:-1][:MOST_FOLDERS]
    forms += [f"/{'/'.join(segments[:depth])}/*" for depth in range(len(segments), 0, -1)]
    return [form for form in forms if len(form) <= MAX_PATTERN]


def _generalised(token: re.Match[str]) -> str:
    text = token[0]
    is_id = len(text) >= 16 or (len(text) >= 8 and _HEX.issuperset(text))
    return "#" if is_id else _NUMBER.sub("#", text)
