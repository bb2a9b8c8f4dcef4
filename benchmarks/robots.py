"""Our reading of robots.txt beside Protego's, on thousands of files of real sites.

Protego's source package carries the files. Each is asked about the paths that it names itself, and
some more. Some reasons why the two differ: Protego takes no byte order mark, strips blanks that are
not ASCII, and lets a rule for `/x/index.html` speak for `/x/`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from protego import Protego

from benchmarks.common import print_table, say
from benchmarks.environments import CACHE
from crawlproj.politeness import robots

AGENT = "crawlproj"
MOST_RULES = 200
_RULE = re.compile(r"(?im)^\s*(?:dis)?allow\s*:\s*(/[^\s#]*)")


def files() -> Iterator[tuple[str, bytes]]:
    """Site and robots.txt, from the source package, which is fetched once."""
    folder = CACHE / "protego"
    if not list(folder.glob("*.tar.gz")):
        say(f"fetching Protego's source package into {folder}")
        how = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", *how, "protego"], check=True)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        for member in packed:
            if "/test_data/" in member.name and (body := packed.extractfile(member)):
                yield Path(member.name).name, body.read()


def paths_in(text: str) -> set[str]:
    """Paths that the rules are about, and what may follow them."""
    named = {rule.replace("*", "x").replace("$", "") for rule in _RULE.findall(text)[:MOST_RULES]}
    return {"/", "/index.html", "/a/b?c=d"} | named | {f"{path}more" for path in named}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robots", description=__doc__)
    parser.add_argument("--show", type=int, default=10, help="sites that differ [10]")
    options = parser.parse_args()
    asked = stricter = laxer = count = 0
    longest_s = 0.0
    differing: dict[str, str] = {}
    for site, body in files():
        # Bytes that are no UTF-8 are the same to neither.
        text = body.decode("utf-8", errors="ignore")
        began = time.perf_counter()
        ours = robots.parse(text.encode(), AGENT)
        longest_s = max(longest_s, time.perf_counter() - began)
        theirs = Protego.parse(text)
        count += 1
        for path in paths_in(text):
            asked += 1
            allowed = ours.allows(path)
            if allowed != theirs.can_fetch(path, AGENT):
                stricter, laxer = stricter + (not allowed), laxer + allowed
                differing[site] = path
    about = {"files": count, "verdicts": asked, "ours_stricter": stricter, "ours_laxer": laxer}
    longest_ms = round(longest_s * 1000, 1)
    print_table([{**about, "sites_that_differ": len(differing), "longest_ms": longest_ms}])
    for site, path in list(differing.items())[: options.show]:
        print(f"  {site}: {path}")


if __name__ == "__main__":
    main()
