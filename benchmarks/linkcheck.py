"""`scrapy linkcheck` beside Debian's linkchecker, on a site whose defects are known.

    python -m benchmarks.linkcheck [--pages 2000]      # needs: apt-get install linkchecker

Each page has four others below it and a footer with a link that is broken. Beside that there are
pages that are gone, a redirect to one of them, one in a circle, a malformed link, a page elsewhere
that is gone, one that is always busy (503), and one that is busy twice and then fine: that one is
not broken. Both are asked to check what leaves the site, with ten connections and without a pause.
`found` are the broken links that a checker names, `missed` those that it does not, `wrong` what it
names and is fine; `requests` is what the site was asked, `pages_named` how many pages the checker
says have the broken link of the footer.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.common import PROJECT, Row, end_cleanly, machine, publish, redis_server
from tests.servers.fleet import Fleet
from tests.servers.origin import Origin, Reply, Request, Route

CONNECTIONS = 10
BROKEN = {"/imprint", "/gone", "/always-busy", "elsewhere/gone"}
"""By where they are. Redirects are known by either end: see `named`."""
ALSO_BROKEN = {"/round": "/round-again", "/moved-to-gone": "/gone"}
"""A redirect, and where it leads: a checker may name either."""
SETTINGS = {
    "CRAWL_ALLOW_ADDRESSES": "loopback",
    "POLITENESS_DELAY": "0",
    "POLITENESS_PER_HOST": str(CONNECTIONS),
    "POLITENESS_BACKOFF": "0.05",
    "FRONTIER_RETRY_DELAY": "0.1",
}
UNHURRIED = "[checking]\nmaxrequestspersecond=10000\n"
"""What linkchecker is told. It asks a host three times a second at most, unless the host sends…"""
MAY_HURRY = {"LinkChecker": "yes"}
"""… this header, too."""
FIRST = (
    "/gone",
    "/moved-to-gone",
    "/round",
    "/busy",
    "/always-busy",
    "/moved",
    "{other}/gone",
    "{other}/fine",
)
"""What the first page links to beside the others."""


def busy_twice(request: Request) -> Reply:
    return Reply(503) if request.attempt < 3 else Reply(body=b"<p>fine")


def site(pages: int, other: str) -> dict[str, Route]:
    def page(number: int) -> bytes:
        below = range(number * 4 + 1, min(number * 4 + 5, pages))
        hrefs = [f"/page/{one}" for one in below]
        hrefs += [one.format(other=other) for one in FIRST] if number == 0 else []
        links = "".join(f'<a href="{href}">{href}</a>' for href in hrefs)
        return f"<title>{number}</title>{links}<a href=/imprint>Imprint</a>".encode()

    pages_of_site = {
        f"/page/{one}": Reply(headers=MAY_HURRY, body=page(one)) for one in range(pages)
    }
    return pages_of_site | {
        "/robots.txt": Reply(404),
        "/moved": Reply(301, {"Location": "/page/1"}),
        "/moved-to-gone": Reply(301, {"Location": "/gone"}),
        "/round": Reply(301, {"Location": "/round-again"}),
        "/round-again": Reply(301, {"Location": "/round"}),
        "/busy": busy_twice,
        "/always-busy": Reply(503),
    }


def ours(fleet: Fleet, seed: str) -> list[tuple[str, str]]:
    """(broken URL, page that has it) of each link that is named."""
    options = [word for pair in SETTINGS.items() for word in ("-s", "{}={}".format(*pair))]
    options += ["-s", f"CRAWL_OUTPUT={fleet.output}"]
    command = [sys.executable, "-m", "scrapy", "linkcheck", seed, "--offsite", "--format", "json"]
    ran = subprocess.run(
        [*command, *options],
        env=fleet.env,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 1:
        raise SystemExit(f"scrapy linkcheck ended with {ran.returncode}:\n{ran.stderr}")
    found = json.loads(ran.stdout)["broken"]
    return [(one["url"], source) for one in found for source in one["sources"]]


def debians(config: Path, seed: str) -> list[tuple[str, str]]:
    command = ["linkchecker", "--check-extern", "--no-warnings", "-o", "csv", "-f", str(config)]
    ran = subprocess.run(
        [*command, "-t", str(CONNECTIONS), seed], capture_output=True, text=True, check=False
    )
    lines = [line for line in ran.stdout.splitlines() if line and not line.startswith("#")]
    rows = list(csv.DictReader(lines, delimiter=";"))
    return [(row["urlname"], row["parentname"]) for row in rows if row["valid"] == "False"]


def judged(found: list[tuple[str, str]], here: str, there: str) -> Row:
    paths = {url.replace(here, "").replace(there, "elsewhere") for url, _ in found}
    named = {one for one in BROKEN if one in paths}
    named |= {one for one, end in ALSO_BROKEN.items() if one in paths or end in paths}
    known = {*BROKEN, *ALSO_BROKEN, *ALSO_BROKEN.values()}
    footers = {page for url, page in found if url.endswith("/imprint")}
    return {
        "found": len(named),
        "missed": len(BROKEN) + len(ALSO_BROKEN) - len(named),
        "wrong": len(paths - known),
        "pages_named": len(footers),
    }


def measure(pages: int, name: str, check: Callable[[str], list[tuple[str, str]]]) -> Row:
    with (
        Origin({"/fine": Reply(body=b"fine")}, address="127.0.5.2") as other,
        Origin(site(pages, other.url("")), address="127.0.5.1") as origin,
    ):
        began_s = time.monotonic()
        found = check(origin.url("/page/0"))
        seconds = time.monotonic() - began_s
        requests = len(origin.requests())
        verdict = judged(found, origin.url(""), other.url(""))
    return {"checker": name, "pages": pages, "seconds": seconds, "requests": requests, **verdict}


def main() -> None:
    end_cleanly()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linkcheck", description=__doc__)
    parser.add_argument("--pages", type=int, default=2000, help="[2000]")
    options = parser.parse_args()
    if shutil.which("linkchecker") is None:
        raise SystemExit("linkchecker is not installed: apt-get install linkchecker")
    with (
        redis_server() as (server, client),
        tempfile.TemporaryDirectory(prefix="bench-linkcheck-") as scratch,
        Fleet(Path(scratch), server.url) as fleet,
    ):
        config = Path(scratch) / "linkcheckerrc"
        config.write_text(UNHURRIED)
        Path(scratch).chmod(0o755)  # linkchecker goes on as nobody
        rows = [
            measure(options.pages, "ours", partial(ours, fleet)),
            measure(options.pages, "linkchecker", partial(debians, config)),
        ]
        publish("linkcheck", machine(client), vars(options), rows)


if __name__ == "__main__":
    main()
