"""What is off costs nothing: on the path of a page or of a link none of its code is called, and
Redis keeps nothing for it. Calls are counted in real workers, on a small web and on a larger one:
what does not grow is paid for once, when a crawl starts."""

from __future__ import annotations

import json

from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Route

COUNTING = """
import json, os, sys
from collections import Counter
from scrapy import signals

class Counting:
    def __init__(self):
        self.calls = Counter()
        sys.setprofile(self.note)

    @classmethod
    def from_crawler(cls, crawler):
        one = cls()
        crawler.signals.connect(one.write, signals.spider_closed)
        return one

    def note(self, frame, event, _):
        if event == "call":
            self.calls[frame.f_code] += 1

    def write(self):
        sys.setprofile(None)
        found = Counter()
        for code, times in self.calls.items():
            _, inside, name = code.co_filename.rpartition("/crawlproj/")
            if inside:
                found[name] += times
        with open(os.environ["CALLS"], "w") as file:
            json.dump(found, file)
"""

FEATURES = {
    "refresh": ("discover/freshness", "discover/refreshing", "frontier/resting", "frontier/visits"),
    "near": ("discover/fingerprint", "discover/near_duplicates", "frontier/near_index"),
    "render": ("fetch/rendering/",),
    "sitemaps": ("discover/sitemap", "discover/web_feeds"),
    "against": ("output/earlier/",),
    "extract": ("output/extract/",),
}


def web(pages: int) -> dict[str, Route]:
    links = "".join(f"<a href=/{number}>page {number}</a>" for number in range(pages))
    text = "word " * 100
    page = Reply(body=f"<title>t</title>{links}{text}".encode(), headers={"ETag": '"1"'})
    return {"/robots.txt": Reply(404), "/": page, **{f"/{n}": page for n in range(pages)}}


def calls_of(fleet: Fleet, pages: int, **given: str) -> dict[str, int]:
    """How often functions of each module were called in a crawl of so many pages."""
    name = f"of-{pages}-{'-'.join(given)}"
    custom, told = fleet.folder / "custom", fleet.folder / f"{name}.json"
    custom.mkdir(exist_ok=True)
    (custom / "counting.py").write_text(COUNTING)
    env = {"PYTHONPATH": f"{custom}:{fleet.env['PYTHONPATH']}", "CALLS": str(told)}
    counted = {"EXTENSIONS": json.dumps({"counting.Counting": 1})}
    with Origin(web(pages)) as origin:
        words = {"crawl": name, "seeds": origin.url("/"), "delay": 0}
        worker = fleet.start(counted, env=env, **words, **given)
        assert worker.wait() == "finished", worker.log
    assert len(fleet.rows("pages", name)) == pages + 1
    found: dict[str, int] = json.loads(told.read_text())
    return found


def grown(few: dict[str, int], many: dict[str, int], feature: str) -> dict[str, int]:
    """Modules of a feature that are called more often where there are more pages."""
    return {
        name: many[name] - few.get(name, 0)
        for name in many
        if name.startswith(FEATURES[feature]) and many[name] > few.get(name, 0)
    }


def test_nothing_of_what_is_off_is_called_for_a_page_or_a_link(fleet: Fleet) -> None:
    few, many = calls_of(fleet, 5), calls_of(fleet, 25)
    assert {name for name in FEATURES if grown(few, many, name)} == set()
    near = calls_of(fleet, 25, near="true")
    assert {name for name in FEATURES if grown(few, near, name)} == {"near"}, "calls are counted"
