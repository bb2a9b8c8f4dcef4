"""URLs as the frontier knows them: one spelling for each page, split into host and path.

`normalise` reads a URL the way browsers do (the WHATWG URL standard, https://url.spec.whatwg.org)
and goes on where that standard stops, so that two spellings of one page become one URL: needless
percent-escapes are decoded, userinfo, fragments, session ids and tracking parameters are dropped.
What could never be fetched raises `UrlError`.

Pure: knows nothing of Scrapy, Redis, scope or address policy.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, NoReturn
from urllib.parse import quote_from_bytes, unquote_to_bytes, urljoin

import idna
import tldextract

from crawlproj.possessive import compiled

MAX_LENGTH = 2083
"""Longest URL accepted, in characters after normalising; what Internet Explorer made customary."""

# fmt: off
MAX_SHOWN = 200
"""Characters of an unusable URL that are kept beside its reason, or shown."""

SESSION_PARAMS = (
    "jsessionid", "phpsessid", "aspsessionid*", "asp.net_sessionid", "cftoken",
    "cfid~", "sessionid~", "session_id~", "sid~", "s~",
)
"""Parameters that name a visit, not a page. `name*` is a prefix; `name~` is dropped only with a
value that is a token for certain, since `sid=7` is a section and `s=insurance` a search."""

_TOKEN = "(?=[0-9a-z]{20})(?:[0-9]*+[a-z]++[0-9]++){4,}+[a-z]*+"
"""Random letters and digits: long, and mixed more often than words, years and products are."""

TRACKING_PARAMS = (
    "utm_*", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "fbclid", "msclkid", "yclid",
    "twclid", "ttclid", "igshid", "mc_cid", "mc_eid", "_ga", "_gl", "_hsenc", "_hsmi",
)
"""Parameters that tell a site where its visitor came from."""
# fmt: on

DEFAULT_PORTS = {"http": "80", "https": "443"}
_HOSTS_CACHED = 65_536
# Escapes and fragments make a URL longer than its normal form, but not without end.
_RAW_FACTOR = 4

_ASCII = bytes(range(0x80))
_C0_OR_SPACE = "".join(map(chr, range(0x21)))
_TAB_OR_NEWLINE = re.compile(r"[\t\n\r]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")

# Already as `normalise` would write it: upper-case escapes of reserved characters and other bytes
# only, no path parameters, no dot segments.
_NORMAL_ESCAPE = "%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|[46]0|5[B-E]|7[B-DF])"
_CLEAN_PATH = rf"(?:/(?!\.)(?:[A-Za-z0-9\-._~!$&'()*+,:=@]++|{_NORMAL_ESCAPE})*+)++"
_CLEAN_QUERY = rf"\?((?:[A-Za-z0-9\-._~!$&()*+,:=@/;?]++|{_NORMAL_ESCAPE})++)"
_clean_relative = compiled(rf"(?!//){_CLEAN_PATH}(?:{_CLEAN_QUERY})?").fullmatch
_ORIGIN = r"(https?://[A-Za-z0-9.:\-]++)"
_clean_absolute = compiled(rf"{_ORIGIN}({_CLEAN_PATH}(?:{_CLEAN_QUERY})?)?").fullmatch

# The union of the standard's percent-encode sets and of what RFC 3986 leaves out, so that
# no client between here and the wire has a reason to rewrite the URL once more.
_UNSAFE_IN_PATH = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,:=@/;%]+")
_UNSAFE_IN_QUERY = re.compile(r"[^A-Za-z0-9\-._~!$&()*+,:=@/;?%]+")
# An escape that follows a stray "%" or "%4" stays: decoded, the two would form a new escape.
_ESCAPE = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%([0-9A-Fa-f]{2})")
_HEX_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
# Narrower than the standard, which also lets through names that no DNS server holds: `a'b{c}`.
_NAME = re.compile(r"[a-z0-9_\-]{1,63}(?:\.[a-z0-9_\-]{1,63})*")
_IPV4_NUMBER = re.compile(r"(0x)([0-9a-f]*)|(0)([0-7]+)|()(0|[1-9][0-9]*)")


class UrlError(ValueError):
    """A URL that cannot be used; `reason` is one of scheme, host, port, idn, length, syntax."""

    def __init__(self, reason: str, problem: str, url: str) -> None:
        shown = url if len(url) <= 100 else url[:100] + "…"
        super().__init__(f"{problem}: {shown!r}")
        self.reason = reason


class Url(NamedTuple):
    """A normal URL in two halves: what is paced, and what is asked of it."""

    host: str
    """Scheme, name and, unless it is the default, port: `http://example.com:8080`."""
    path: str
    """Path and query: `/a?b=c`. Begins with a slash, has no fragment."""

    def __str__(self) -> str:
        return self.host + self.path

    @property
    def authority(self) -> str:
        """The host without its scheme: `example.com:8080`."""
        return self.host.partition("://")[2]

    @property
    def folder(self) -> str:
        """The path as far as relative links have it in common: `/a/` of `/a/b?c`."""
        return self.path[: self.path.partition("?")[0].rindex("/") + 1]


def param_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Compile names of parameters to drop (as in `SESSION_PARAMS`) for `normalise`."""
    tails = {"*": "[^=]*(?:=.*)?", "~": f"={_TOKEN}"}
    alternatives = [
        re.escape(name[:-1]) + tails[name[-1]]
        if name[-1] in tails
        else re.escape(name) + "(?:=.*)?"
        for name in names
    ]
    return compiled("|".join(alternatives) or r"(?!)", re.IGNORECASE)


DROPPED_PARAMS = param_pattern(SESSION_PARAMS + TRACKING_PARAMS)


def normalise(
    url: str,
    base: Url | None = None,
    *,
    max_length: int = MAX_LENGTH,
    drop: re.Pattern[str] | None = DROPPED_PARAMS,
    encoding: str = "utf-8",
) -> Url:
    """Return the one spelling of `url`, resolved against `base`, or raise `UrlError`.

    `drop` matches parameters to remove, as `param_pattern` makes it; None keeps all of them.
    `encoding` is that of the page the link was found on: browsers escape a query with it.
    """
    if len(url) > max_length * _RAW_FACTOR:
        raise UrlError("length", f"URL has more than {max_length} characters", url)
    text = url.partition("#")[0]
    if base is not None and ":" not in text and text[:1].isalnum():
        text = base.folder + text
    if base is not None and (clean := _clean_relative(text)):
        if not _has_dropped(drop, clean[1]):
            return _within(max_length, Url(base.host, text))
    elif (clean := _clean_absolute(text)) and not _has_dropped(drop, clean[3]):
        return _within(max_length, Url(_host_key(clean[1]), clean[2] or "/"))
    return _within(max_length, _parse(url, base, drop, encoding))


def is_safe(url: str) -> bool:
    """True for a whole URL that nobody has a reason to write otherwise; False if it may be one."""
    return _clean_absolute(url) is not None


def absolute(url: str, base: str) -> str:
    """A URL as it is written if it is a whole one, or cannot be resolved, else resolved."""
    if url.lower().startswith(("http://", "https://")):
        return url
    try:
        return urljoin(base, url)
    except ValueError:
        return url


def bare_name(host: str) -> str:
    """The name or address of a host without scheme, port and brackets."""
    name = host.rpartition("://")[2]
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def location(header: bytes | None) -> str:
    """What a `Location` header says, as text. Servers send names beyond ASCII in whatever encoding
    they are stored in, mostly UTF-8, so those bytes are asked for as they came."""
    return quote_from_bytes(header or b"", safe=_ASCII)


def _has_dropped(drop: re.Pattern[str] | None, query: str | None) -> bool:
    return bool(drop and query and any(map(drop.fullmatch, query.split("&"))))


def _within(max_length: int, url: Url) -> Url:
    if len(url.host) + len(url.path) > max_length:
        raise UrlError("length", f"URL has more than {max_length} characters", str(url))
    return url


def _parse(url: str, base: Url | None, drop: re.Pattern[str] | None, encoding: str) -> Url:
    """The whole of the standard's parser, for the two schemes that are crawled."""
    text = _TAB_OR_NEWLINE.sub("", url.strip(_C0_OR_SPACE))
    text = _SURROGATE.sub("\ufffd", text).partition("#")[0]
    scheme, rest = _split_scheme(text, base)
    hierarchy, mark, query = rest.partition("?")
    hierarchy = hierarchy.replace("\\", "/")
    if scheme:
        authority, slash, path = hierarchy.lstrip("/").partition("/")
        host = _host_key(f"{scheme}://{authority.rpartition('@')[2]}")
        return Url(host, _normal_path(slash + path, drop) + _normal_query(query, drop, encoding))
    if base is None:
        raise UrlError("syntax", "URL has no scheme; write it as https://…", url)
    if not hierarchy and not mark:
        return base
    path = hierarchy or base.path.partition("?")[0]
    path = path if path[0] == "/" else base.folder + path
    return Url(base.host, _normal_path(path, drop) + _normal_query(query, drop, encoding))


def _split_scheme(text: str, base: Url | None) -> tuple[str, str]:
    """Return (scheme, rest); the scheme is empty where the URL is relative to its base's host."""
    base_scheme = base.host.partition(":")[0] if base else ""
    found = _SCHEME.match(text)
    if not found:
        return (base_scheme if text[:2].replace("\\", "/") == "//" else ""), text
    scheme, rest = found[1].lower(), text[found.end() :]
    if scheme not in DEFAULT_PORTS:
        raise UrlError("scheme", f"only http and https are crawled, not {scheme[:20]!r}", text)
    # "http:page" on a page of the same scheme is relative: an oddity of the first browsers.
    if scheme == base_scheme and rest[:2].replace("\\", "/") != "//":
        return "", rest
    return scheme, rest


def _normal_path(path: str, drop: re.Pattern[str] | None) -> str:
    path = _percent(path, _UNSAFE_IN_PATH, "utf-8")
    if ";" in path and drop is not None:
        path = "/".join(_without(drop, segment, ";") for segment in path.split("/"))
    return _resolve_dots(path) if "/." in path else path or "/"


def _normal_query(query: str, drop: re.Pattern[str] | None, encoding: str) -> str:
    query = _percent(query, _UNSAFE_IN_QUERY, encoding)
    if drop is not None:
        query = _without(drop, query, "&")
    return "?" + query if query else ""


def _percent(text: str, unsafe: re.Pattern[str], encoding: str) -> str:
    """Escape what must be, decode what need not be, and leave a stray `%` as it is."""
    if unsafe.search(text):
        text = unsafe.sub(
            lambda run: quote_from_bytes(run[0].encode(encoding, "xmlcharrefreplace"), safe=""),
            text,
        )
    if "%" not in text:
        return text
    text = _HEX_ESCAPE.sub(lambda escape: escape[0].upper(), text)
    return _ESCAPE.sub(_decode_unreserved, text)


def _decode_unreserved(escape: re.Match[str]) -> str:
    char = chr(int(escape[1], 16))
    return char if char in _UNRESERVED else escape[0]


def _without(drop: re.Pattern[str], text: str, separator: str) -> str:
    parts = text.split(separator)
    kept = [part for part in parts if not drop.fullmatch(part)]
    return text if len(kept) == len(parts) else separator.join(kept)


def _resolve_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


@lru_cache(_HOSTS_CACHED)
def _host_key(origin: str) -> str:
    """`HTTP://Example.COM.:80` → `http://example.com`; userinfo is already gone."""
    scheme, _, authority = origin.partition("://")
    parts = _AUTHORITY.fullmatch(authority)
    if not parts:
        reason = "host" if "[" in authority or "]" in authority else "port"
        raise UrlError(reason, f"URL has a malformed {reason}", origin)
    name = _normal_host(parts[1], origin)
    port = (parts[2] or "").lstrip("0")
    if parts[2] and (not port or len(port) > 5 or int(port) > 65535):
        raise UrlError("port", "port is not between 1 and 65535", origin)
    return f"{scheme}://{name}" + (f":{port}" if port and port != DEFAULT_PORTS[scheme] else "")


def _normal_host(host: str, origin: str) -> str:
    if host.startswith("["):
        return _ipv6(host[1:-1], origin)
    if "%" in host:
        host = unquote_to_bytes(host).decode("utf-8", "replace")
    if not host.isascii() or "xn--" in host.lower():
        host = _to_ascii(host, origin)
    name = host.lower().removesuffix(".")
    if not _NAME.fullmatch(name) or len(name) > 253:
        _refuse_host(origin)
    return _ipv4(name, origin) if _ends_in_number(name) else name


def _refuse_host(origin: str) -> NoReturn:
    raise UrlError("host", "URL has no usable host", origin)


def _to_ascii(name: str, origin: str) -> str:
    """The standard's "domain to ASCII"; wider than IDNA 2008, which refuses emoji and `a_b`."""
    try:
        mapped = idna.uts46_remap(name, std3_rules=False)
        return ".".join(label if not label else _a_label(label) for label in mapped.split("."))
    except ValueError as error:
        raise UrlError("idn", f"not a valid international domain ({error})", origin) from error


def _a_label(label: str) -> str:
    is_punycode = label.startswith("xn--")
    if label.isascii() and not is_punycode:
        return label
    if is_punycode and not label.isascii():
        raise ValueError(f"punycode with other letters in {label[:63]!r}")
    unicode = label.removeprefix("xn--").encode().decode("punycode") if label.isascii() else label
    if len(label) > 63 or unicode.isascii() or idna.uts46_remap(unicode, False) != unicode:
        raise ValueError(f"bad label {label[:63]!r}")
    idna.core.check_initial_combiner(unicode)
    idna.core.check_bidi(unicode)
    for position, char in enumerate(unicode):
        if char in "\u200c\u200d" and not idna.core.valid_contextj(unicode, position):
            raise ValueError(f"misplaced joiner in {label[:63]!r}")
    a_label = "xn--" + unicode.encode("punycode").decode()
    if label.isascii() and a_label != label:
        raise ValueError(f"bad punycode {label[:63]!r}")
    return a_label


def _ends_in_number(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last.isdigit() or (last.startswith("0x") and bool(_IPV4_NUMBER.fullmatch(last)))


def _ipv4(name: str, origin: str) -> str:
    """`0x7f.1`, `2130706433` and `0177.0.0.1` all are 127.0.0.1 to a resolver."""
    numbers = [_ipv4_number(part, origin) for part in name.split(".")]
    *leading, last = numbers
    if len(numbers) > 4 or any(n > 255 for n in leading) or last >= 256 ** (5 - len(numbers)):
        _refuse_host(origin)
    address = last + sum(n << 24 - 8 * place for place, n in enumerate(leading))
    return str(ipaddress.IPv4Address(address))


def _ipv4_number(part: str, origin: str) -> int:
    found = _IPV4_NUMBER.fullmatch(part)
    if not found:
        _refuse_host(origin)
    if found[1]:
        return int(found[2] or "0", 16)
    return int(found[4], 8) if found[3] else int(found[6])


def _ipv6(text: str, origin: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        _refuse_host(origin)
    if address.scope_id is not None:
        _refuse_host(origin)
    if address.ipv4_mapped:  # spelled differently by different versions of Python
        high, low = divmod(int(address.ipv4_mapped), 1 << 16)
        return f"[::ffff:{high:x}:{low:x}]"
    return f"[{address.compressed}]"


# Sites below a shared suffix such as github.io belong to different people, hence the private part.
_suffixes = tldextract.TLDExtract(
    cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True
)


@lru_cache(_HOSTS_CACHED)
def registrable_domain(host: str) -> str:
    """The domain a host key belongs to: `https://www.bbc.co.uk` → `bbc.co.uk`.

    An address, a single label and a public suffix are their own domain.
    """
    name = host.rpartition("://")[2]
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    name = name.partition(":")[0]
    if "." not in name or _ends_in_number(name):
        return name
    found = _suffixes(name)
    if found.suffix:
        return found.top_domain_under_public_suffix or name
    return ".".join(name.rsplit(".", 2)[-2:])
