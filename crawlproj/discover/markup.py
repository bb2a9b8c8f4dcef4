"""The grammar of HTML's tags, as regular expressions that follow the tokeniser of the HTML standard
(https://html.spec.whatwg.org/#tokenization): comments, raw text such as scripts, and quoted
attributes are passed over. Every quantifier is possessive or ends at the end of the text, so that
time is linear in the page, always. Pure.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import lru_cache
from html.entities import html5
from string import ascii_lowercase

from crawlproj.possessive import compiled

# The grammar of tags. Case is spelled out because that is twice as fast as ignoring it. No group
# inside a possessive quantifier captures: Python 3.11 fails on that (SystemError, "report a bug").


def _name(*names: str) -> str:
    spelled = ("".join(f"[{char}{char.upper()}]" for char in name) for name in names)
    return f"(?:{'|'.join(spelled)})"


def _initial_of_none(*names: str) -> str:
    """A letter by which it is already known that a tag is none of these."""
    return _letters(set(ascii_lowercase) - {name[0] for name in names})


def _second_of_none(*names: str) -> str:
    """Two letters by which the same is known of most other tags: `<p>`, `<td>`, `<span>`. Not of
    those that begin with an a, which is a name by itself."""
    names = tuple(name for name in names if name[0] != "a")
    seconds = _letters({name[1] for name in names})
    return f"{_letters({name[0] for name in names})}(?!{seconds})"


def _letters(some: set[str]) -> str:
    text = "".join(sorted(some))
    return f"[{text}{text.upper()}]"


def _element(tag: str, group: str = "", of_attributes: str = "") -> str:
    """An element whose content is text up to its own end tag, markup or not."""
    name = _name(tag)
    content = f"?P<{group}>" if group else "?:"
    attributes = f"(?P<{of_attributes}>{_ATTRIBUTES})" if of_attributes else _ATTRIBUTES
    return rf"""{name}{_STOP}{attributes}{_END}({content}[^<]*+(?:<(?!/{name}{_STOP})[^<]*+)*+)"""


_WS = r"[\x20\t\n\f\r]"
_STOP = r"(?=[\x20\t\n\f\r/>])"
_END = r"(?:>|\Z)"
_UNQUOTED = r"""[^\x20\t\n\f\r>"'][^\x20\t\n\f\r>]*+"""
_VALUE = rf"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|{_UNQUOTED})"""
_ATTRIBUTE = rf"[^\x20\t\n\f\r/>][^\x20\t\n\f\r/>=]*+(?:{_WS}*+={_WS}*+{_VALUE}?+)?+"
_ATTRIBUTES = rf"(?:[\x20\t\n\f\r/]++|{_ATTRIBUTE})*+"
# Shortcuts for most names and attributes. They take a quarter off the time of large pages.
_PLAIN_NAME = r"[a-zA-Z0-9]*+"
_PLAIN_ATTRIBUTES = r"""(?:\x20++[a-zA-Z\-]++=(?:"[^"]*+"|'[^']*+'))++[\x20\t\n\f\r/]*+"""
_ANY_REST = rf"[^\x20\t\n\f\r/>]*+{_ATTRIBUTES}{_END}"
_REST = rf"{_PLAIN_NAME}(?:>|{_PLAIN_ATTRIBUTES}>|{_ANY_REST})"
_HREF = rf"""{_name("href")}{_WS}*+={_WS}*+
    (?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>{_UNQUOTED}))"""
HREFS = ("plain", "double", "single", "bare")
# A shortcut for most anchors, too; none of them is marked `rel=nofollow`.
_OTHERS = rf"""(?:\x20(?!{_name("href", "rel")}=)[a-zA-Z\-]++="[^"]*+")*+"""
_PLAIN_HREF = rf"""{_OTHERS}\x20href="(?P<plain>[^"]*+)"{_OTHERS}(?=>)"""

_COMMENT = r"!--(?:-?>|[^-]*+(?:-(?!-!?>)[^-]*+)*+(?:--!?>|\Z))"
_RAW_TEXT = ("script", "style", "textarea", "xmp", "noembed", "noframes", "iframe")
_TAGS = ("base", "meta", "svg", "plaintext")
_IMAGES = ("img", "source")


@lru_cache
def scanner(images: bool, texts: bool = False) -> re.Pattern[str]:
    """One match a tag of interest, preceded by all that is not; the last one is empty. With `texts`
    that of an anchor which holds nothing but text has it too."""
    text = f"(?:(?P<text>[^<]*+)(?=</[aA]{_STOP}))?" if texts else ""
    tags = _TAGS + _IMAGES if images else _TAGS
    special = ("a", "area", "title", "body", *tags, *_RAW_TEXT)
    return compiled(
        rf"""
        (?: [^<]*+
            < (?: /[a-zA-Z0-9]++>
                | /[a-zA-Z]{_REST}
                | {_initial_of_none(*special)}{_REST}
                | {_second_of_none(*special)}{_REST}
                | (?!{_name(*special)}{_STOP})[a-zA-Z]{_REST}
                | {_COMMENT}
                | [!?/][^>]*+{_END}
                | {"|".join(_element(tag) for tag in _RAW_TEXT)}
                | (?![a-zA-Z!?/])
              )
        )*+
        [^<]*+
        (?: < (?: {_element("title", "title")}
                | (?: {_name("a", "area")}{_STOP}(?P<anchor>)
                      (?: {_PLAIN_HREF}
                        | (?:[\x20\t\n\f\r/]++|(?!{_name("href")}[\x20\t\n\f\r/>=]){_ATTRIBUTE})*+
                          (?:{_HREF})?{_ATTRIBUTES} )
                    | (?P<tag>{_name(*tags)}){_STOP}(?P<attributes>{_ATTRIBUTES})
                    | {_name("body")}{_STOP}{_ATTRIBUTES}(?P<body>)
                  )
                  (?:>|\Z(?P<cut_off>)){text}
              )
          | \Z )
        """,
        re.DOTALL | re.VERBOSE,
    )


_one_attribute = compiled(
    rf"""[\x20\t\n\f\r/]*+(?P<name>[^\x20\t\n\f\r/>][^\x20\t\n\f\r/>=]*+)
    (?:{_WS}*+={_WS}*+(?P<value>{_VALUE})?)?""",
    re.VERBOSE,
)
# As in attributes, where `&copy=1` is a parameter and not a sign.
_entity = re.compile(r"&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[A-Za-z][A-Za-z0-9]*+(?:;|(?!=)))")


@lru_cache
def _start_tags() -> re.Pattern[str]:
    """One match a start tag, or a comment; what is inside raw text is passed over."""
    return compiled(
        rf"""
        < (?: {_COMMENT}
            | {"|".join(_element(tag, of_attributes=tag) for tag in _RAW_TEXT)}
            | (?P<tag>[a-zA-Z][^\x20\t\n\f\r/>]*+)(?P<attributes>{_ATTRIBUTES}) )
        """,
        re.DOTALL | re.VERBOSE,
    )


def start_tags(text: str) -> Iterator[tuple[str, str]]:
    """Every start tag of a page: its lower-case name, and its attributes as `attributes_of` reads
    them."""
    for match in _start_tags().finditer(text):
        kind = match.lastgroup
        if kind == "attributes":
            yield match["tag"].lower(), match["attributes"]
        elif kind:
            yield kind, match[kind]


def attributes_of(text: str) -> dict[str, str]:
    """The attributes of a tag, by lower-case name; the first of a name counts."""
    found: dict[str, str] = {}
    for attribute in _one_attribute.finditer(text):
        value = attribute["value"] or ""
        if value[:1] in ("'", '"'):
            value = value[1:-1]
        found.setdefault(attribute["name"].lower(), unescape(value))
    return found


def unescape(value: str) -> str:
    return _entity.sub(_decode_entity, value)


def _decode_entity(entity: re.Match[str]) -> str:
    text = entity[0]
    if text[1] == "#":
        return html.unescape(text) if len(text) < 16 else "\ufffd"
    return html5.get(text[1:], text)
