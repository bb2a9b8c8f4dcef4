"""Two link checks side by side: what each of them has looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crawlproj.errors import ConfigError
from crawlproj.items import PERMANENT
from crawlproj.operate.link_comparison import Comparison, Extent, Options, compare, read_earlier
from crawlproj.operate.link_report import LinkReport, keep
from crawlproj.output.broken_links import ANCHOR, Broken, Findings, LinkTo

START, PAGE, GONE = "http://a/", "http://a/page", "http://a/gone"
ELSEWHERE = "http://b/gone"


def broken(url: str, *sources: str, kind: str = PERMANENT, through: str = "") -> Broken:
    links = [LinkTo(source, "", through or url) for source in sources]
    return Broken(url, 404, kind, "http_404", links=links)


def compared(
    folder: Path,
    before: Findings,
    now: Findings,
    *,
    options: tuple[Options, Options] = (Options(), Options()),
    is_complete: bool = True,
) -> Comparison:
    """As the second check sees the first, by the file that the first has left."""
    keep(LinkReport([START], "then", 1, True, before, options[0]), folder)
    return compare(now, Extent([START], options[1], is_complete), read_earlier(folder))


def test_an_interrupted_check_has_mended_only_what_it_has_looked_at(tmp_path: Path) -> None:
    before = Findings(
        [broken(GONE, START), broken("http://a/far", PAGE), broken("http://a/removed", START)],
        read={START, PAGE},
    )
    now = Findings([], read={START}, linked={GONE})
    found = compared(tmp_path, before, now, is_complete=False)
    assert found.mended == ["http://a/removed"]
    assert found.not_looked_at == ["http://a/far", GONE]

    now.read.add(GONE)
    assert GONE in compared(tmp_path, before, now, is_complete=False).mended


def test_a_redirect_that_was_not_followed_yet_has_not_lost_its_broken_end(tmp_path: Path) -> None:
    before = Findings([broken(GONE, START, through="http://a/led")], read={START})
    now = Findings([], read={START}, linked={"http://a/led"})
    assert compared(tmp_path, before, now, is_complete=False).not_looked_at == [GONE]
    assert compared(tmp_path, before, now).mended == [GONE]


def test_links_elsewhere_are_neither_mended_nor_new_where_they_are_not_asked(
    tmp_path: Path,
) -> None:
    gone, fine = Findings([broken(ELSEWHERE, START)], read={START}), Findings([], read={START})
    fine.linked = {ELSEWHERE}
    with_them, without = Options(offsite=True), Options()
    found = compared(tmp_path, gone, fine, options=(with_them, without))
    assert (found.mended, found.not_looked_at) == ([], [ELSEWHERE])
    assert compared(tmp_path, gone, fine, options=(with_them, with_them)).mended == [ELSEWHERE]
    assert compared(tmp_path, fine, gone, options=(without, with_them)).new == []
    assert compared(tmp_path, fine, gone, options=(with_them, with_them)).new == [ELSEWHERE]


def test_anchors_are_compared_only_where_both_have_looked_for_them(tmp_path: Path) -> None:
    lost = Findings([broken(f"{PAGE}#x", START, kind=ANCHOR)], read={START, PAGE})
    fine = Findings([], read={START, PAGE}, linked={f"{PAGE}#x"})
    with_them, without = Options(anchors=True), Options()
    assert compared(tmp_path, lost, fine, options=(with_them, without)).mended == []
    assert compared(tmp_path, lost, fine, options=(with_them, with_them)).mended == [f"{PAGE}#x"]
    assert compared(tmp_path, fine, lost, options=(without, with_them)).new == []


def test_what_a_robots_txt_may_have_ruled_out_since_is_not_called_mended(tmp_path: Path) -> None:
    before = Findings([broken(GONE, START)], read={START}, unchecked={"robots": 2})
    now = Findings([], read={START}, linked={GONE}, unchecked={"robots": 3})
    assert compared(tmp_path, before, now).not_looked_at == [GONE]
    now.unchecked = {"robots": 2}
    assert compared(tmp_path, before, now).mended == [GONE]


def test_a_new_page_of_a_check_like_the_last_has_new_broken_links(tmp_path: Path) -> None:
    now = Findings([broken(GONE, "http://a/new")], read={START, "http://a/new"})
    found = compared(tmp_path, Findings([], read={START}), now)
    assert (found.new, found.extent) == ([GONE], "")
    deeper = (Options(depth=0), Options())
    found = compared(tmp_path, Findings([], read={START}), now, options=deeper)
    assert (found.new, found.extent) == ([], f"{START} --depth 0")


@pytest.mark.parametrize("change", [{"read": "?"}, {"options": 1}, {"broken": [1]}, {"urls": 1}])
def test_a_result_that_is_damaged_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    file = keep(LinkReport([START], "then", 1, True, Findings([])), tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ConfigError, match="no result of a link check"):
        read_earlier(tmp_path)
