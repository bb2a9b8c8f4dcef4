"""Pages and URLs are read alike by every Python that is supported, those too that match groups with
possessive quantifiers wrongly."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlproj import possessive
from tests.unit.what_is_read import read

PROJECT = Path(__file__).parents[2]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
# A parenthesis that stands behind another is one of a set of characters.
GROUP = re.compile(r"(?<!\()\)(?:[*+?]|\{[\d,]+\})\+")

PAGE = """<!doctype html><html lang=en><head><meta charset=utf-8><title>A < b</title>
<base href="/folder/"><meta name=robots content="index, follow"><style>p > a { color: red }</style>
<script type="a>b">if (a < b) { document.write("<a href=/no>x</" + "a>") }</script></head>
<body class='x' data-a=1 b><!-- <a href=/never> --!><!--> <p>x<a href="/one">one</a> < 2
<a class="b" title='"' href='/two?a=1&amp;b=2'>two</a><A HREF=three rel = "nofollow">three</A>
<area alt="" href = "four#x"><img src=five.png srcset="six.png 2x, seven.png 3x"><?php x ?>
<textarea><a href=/no></textarea><iframe src=/x></iframe></p><svg><title>no</title></svg>
<a href="java&#115;cript:x"><a/href=/eight><a href><a href=""></a ><br/><plaintext><a href=/no>"""
FEED = """<?xml version="1.0"?><!-- a - b -- c --><rss version="2.0"><channel><item a="b">
<link>http://example.com/a</link><title><![CDATA[a ] ]] b]]></title><pubDate>Mon, 02 Jan 2006
15:04:05 GMT</pubDate></item><item><guid isPermaLink="true">http://example.com/b</guid></item>"""
SITEMAP = """<?xml version="1.0"?><!-- - --><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url ><loc>http://example.com/a?b=1&amp;c=2</loc><lastmod>2026-01-02</lastmod></url><url><loc>
<![CDATA[http://example.com/c]]></loc><priority>0.7</priority><changefreq>daily</changefreq></url>"""
URLS = [
    "http://example.com/a/b.html?c=d&e=%2F#f",
    "/a/../b/./c//d;e?utm_source=f&g=%zz&PHPSESSID=0123456789abcdef0123456789abcdef",
    "../x/%7Ey%2f/a1b2c3d4e5f6a1b2c3d4e5f6?sid=a1b2c3d4e5f6g7h8i9j0k1",
    "HTTPS://user@EXAMPLE.com:443/%e4%bd%a0?q=a+b",
]

ATOMS = ["a", "b", "<", "[ab]", "[^<]*+", "(?!b)", "(?=a)", "(?:a|ab)", "a?+"]


def has_the_fault(python: str) -> bool:
    look = "import re, sys; sys.exit(re.fullmatch('(?:<(?!b))*+<b', '<b') is not None)"
    return subprocess.run([python, "-c", look], check=False).returncode == 0


def patterns() -> st.SearchStrategy[str]:
    """Groups in groups, nearly all of them possessive."""

    def in_groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        joined = st.lists(inner, min_size=1, max_size=4).map("".join)
        repeated = st.tuples(joined, st.sampled_from(["*+", "++", "?+", "{1,2}+", "*", ""]))
        return repeated.map(lambda two: f"(?:{two[0]}){two[1]}")

    return st.recursive(st.sampled_from(ATOMS), in_groups, max_leaves=6)


@pytest.mark.skipif(has_the_fault(sys.executable), reason="nothing to compare with")
@given(patterns(), st.text("ab<", max_size=8))
def test_a_pattern_without_possessive_groups_matches_the_same(pattern: str, text: str) -> None:
    found, mended = re.match(pattern, text), possessive.mended(pattern).match(text)
    assert (found and found.span()) == (mended and mended.span())


def test_groups_keep_their_names_and_flags_hold() -> None:
    pattern = possessive.mended(r"(?: x (?!y) )*+ (?P<last> z )", re.VERBOSE | re.IGNORECASE)
    found = pattern.match("XxZ")
    assert found is not None and found["last"] == "Z"
    assert possessive.mended(rb"(?:<(?!b))*+").match(b"<<b") is not None


def test_each_module_with_a_possessive_group_imports_what_compiles_it() -> None:
    using = {
        path.name
        for path in (PROJECT / "crawlproj").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if GROUP.search(node.value) and "import compiled" not in path.read_text(encoding="utf-8")
    }
    assert using == {"possessive.py"}


def with_the_fault() -> list[str]:
    """Other interpreters of this machine that can load our packages."""
    found = [f"{folder}/python{HERE}" for folder in ("/usr/bin", "/usr/local/bin")]
    return [path for path in found if Path(path).exists() and has_the_fault(path)]


def texts() -> list[str]:
    """Pages and lists, whole and cut off anywhere: in a tag, an attribute, a script, a comment."""
    whole = [PAGE, FEED, SITEMAP, *URLS]
    return [*whole, *(text[:end] for text in whole for end in range(0, len(text), 3))]


@pytest.mark.parametrize("python", with_the_fault())
def test_texts_are_read_alike_by_a_python_that_has_the_fault(python: str) -> None:
    packages = {"PYTHONPATH": sysconfig.get_path("purelib")}
    there = subprocess.run(
        [python, "-m", "tests.unit.what_is_read"],
        cwd=PROJECT,
        env=packages,
        input=json.dumps(texts()),
        capture_output=True,
        text=True,
        check=True,
    )
    here = json.loads(json.dumps([read(text) for text in texts()]))
    for text, ours, theirs in zip(texts(), here, json.loads(there.stdout), strict=True):
        assert ours == theirs, text
