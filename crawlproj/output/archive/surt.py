"""URLs as the keys of an index have them: `com,example)/path?query`, so a site stands together.

The form that wayback machines look up: without scheme, user, `www.`, default port, fragment and
session ids, in lower case, with parameters in order. For URLs of http and https; others are their
own key.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlsplit

from crawlproj.urls import DEFAULT_PORTS

_KEPT = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_WWW = re.compile(r"www\d*\.")
_PATH_SESSIONS = (
    re.compile(r"^(.*/)(?:\((?:[a-z]\([0-9a-z]{24}\))+\)/)([^?]+\.aspx.*)$"),
    re.compile(r"^(.*/)(?:\([0-9a-z]{24}\)/)([^?]+\.aspx.*)$"),
)
_QUERY_SESSIONS = tuple(
    re.compile(rf"^(.*)(?:{name})(?:&(.*))?$", re.IGNORECASE)
    for name in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "ASPSESSIONID[a-z]{8}=[a-z]{24}",
        "cfid=[^&]+&cftoken=[^&]+",
    )
)


def surt(url: str) -> str:
    """The key of a URL; of one that cannot be read, itself in printable form."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return _once_escaped(url)
    if parts.scheme not in DEFAULT_PORTS or not host:
        return _once_escaped(url)
    host = _WWW.sub("", _once_escaped(host).strip("."), count=1) if _WWW.match(host) else host
    key = ",".join(reversed(_once_escaped(host).strip(".").split(".")))
    if port is not None and str(port) != DEFAULT_PORTS[parts.scheme]:
        key += f":{port}"
    query = _query(parts.query)
    return f"{key}){_path(parts.path)}" + (f"?{query}" if query else "")


def _path(path: str) -> str:
    kept: list[bytes] = []
    for part in _unescaped(path).split(b"/")[1:]:
        if part == b".." and kept:
            kept.pop()
        elif part != b".":
            kept.append(part)
    tidy = b"/" + b"/".join([part for part in kept[:-1] if part] + kept[-1:])
    text = _escaped(tidy).lower()
    for pattern in _PATH_SESSIONS:
        text = pattern.sub(r"\1\2", text)
    return text[:-1] if len(text) > 1 and text.endswith("/") else text


def _query(query: str) -> str:
    text = _once_escaped(query)
    for pattern in _QUERY_SESSIONS:
        if found := pattern.match(text):
            text = found[1] + (found[2] or "")
    pairs = sorted(tuple(pair.split("=", 1)) for pair in text.lower().split("&"))
    return "&".join("=".join(pair) for pair in pairs)


def _once_escaped(text: str) -> str:
    return _escaped(_unescaped(text))


def _escaped(data: bytes) -> str:
    return quote_from_bytes(data, safe=_KEPT)


def _unescaped(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    while (plain := unquote_to_bytes(data)) != data:
        data = plain
    return data
