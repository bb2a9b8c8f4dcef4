"""What the site has beside docs/: the README as its first page, the other pages of the project, and
each file of code that a page leads to, as a page of its own. Links are written for readers of the
repository; here they are made to lead to the same things on the site.

The build fails if a page of the site would ask for anything elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
MORE_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""File of the project -> page of the site."""

LANGUAGES = {".py": "python", ".lua": "lua", ".yaml": "yaml", ".yml": "yaml", ".service": "ini"}
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)[^>]*\ssrc="(?:https?:)?//[^"]*"|"""
    r"""<link[^>]*\shref="(?:https?:)?//[^"]*"|url\(["']?(?:https?:)?//[^)]*\)|@import\s[^;]*//"""
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in MORE_PAGES.items():
        text = (PROJECT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    pages = [*DOCS.glob("*.md"), *(PROJECT / name for name in MORE_PAGES)]
    for target in sorted({found for page in pages for found in _code_that(page)}):
        files.append(File.generated(config, _page_of_code(target), content=_as_page(target)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The same links, as they are on the site."""
    if page.file.src_uri.startswith("source/"):
        return markdown
    origins = {site: name for name, site in MORE_PAGES.items()}
    origin = PROJECT / origins.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _with_links(part, origin) for part in parts)


def on_page_content(html: str, **_: Any) -> str:
    """A bar within code in a table is written `\\|`, and elsewhere shown without the backslash."""
    return re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for file in (*site.rglob("*.html"), *site.rglob("*.css")):
        if found := ELSEWHERE.search(file.read_text(encoding="utf-8")):
            raise PluginError(f"{file.relative_to(site)} asks elsewhere: {found[0][:200]}")


def _with_links(text: str, origin: Path) -> str:
    def moved(found: re.Match[str]) -> str:
        label, target = found.groups()
        if re.match(r"\w+:|#", target):
            return found[0]
        name, hash_, anchor = target.partition("#")
        place = _on_site((origin.parent / name).resolve())
        # A folder is no page: its name stays.
        return f"{label}({place}{hash_}{anchor})" if place else label[1:-1]

    return LINK.sub(moved, text)


def _on_site(target: Path) -> str | None:
    """The page or picture that a file of the project is, from the first page; all pages of docs/
    lie in one folder, so that no link has to climb."""
    name = target.relative_to(PROJECT).as_posix()
    if name in MORE_PAGES:
        return MORE_PAGES[name]
    if _is_code(target):
        return _page_of_code(target)
    return name.removeprefix("docs/") if target.is_file() else None


def _is_code(target: Path) -> bool:
    is_shown = target.parent == DOCS or target.suffix in (".svg", ".png", ".md")
    return target.is_file() and not is_shown


def _code_that(page: Path) -> set[Path]:
    text = page.read_text(encoding="utf-8")
    targets = {
        (page.parent / target.partition("#")[0]).resolve() for _, target in LINK.findall(text)
    }
    return {target for target in targets if _is_code(target)}


def _page_of_code(target: Path) -> str:
    return f"source/{target.relative_to(PROJECT).as_posix()}.md"


def _as_page(target: Path) -> str:
    name = target.relative_to(PROJECT).as_posix()
    language = "docker" if target.name == "Dockerfile" else LANGUAGES.get(target.suffix, "text")
    code = target.read_text(encoding="utf-8")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n````{language}\n{code}````\n"
