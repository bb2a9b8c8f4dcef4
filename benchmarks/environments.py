"""What the peers need, in a cache folder and never in the project: virtual environments, a folder
of Node packages, and the pages of a Debian package."""

from __future__ import annotations

import shutil
import subprocess
import venv
from functools import cache
from pathlib import Path

from benchmarks.common import say

CACHE = Path.home() / ".cache" / "crawlproj-bench"
READY = "ready"
DOCUMENTATION = ("git-doc", "python3.13-doc", "python3.12-doc", "python3.11-doc")
"""Debian packages with many HTML pages; the first that can be had is used."""


@cache
def python(name: str, *packages: str) -> str:
    """The interpreter of a virtual environment with these packages."""
    folder = CACHE / name
    interpreter = folder / "bin" / "python"
    if not (folder / READY).exists():
        say(f"installing {', '.join(packages)} in {folder}")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / READY).touch()
    return str(interpreter)


@cache
def node(name: str, package: str) -> Path | None:
    """A folder in which Node finds this package; none where there is no npm or no such package."""
    folder = CACHE / name
    if (folder / READY).exists():
        return folder
    if not shutil.which("npm"):
        return _without(f"no npm here: {package} is left out")
    say(f"installing {package} in {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    quietly = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    if subprocess.run(["npm", "install", *quietly, package], cwd=folder, check=False).returncode:
        return _without(f"npm cannot install {package}: it is left out")
    (folder / READY).touch()
    return folder


@cache
def documentation() -> Path | None:
    """A folder of HTML pages from a Debian package; none where that cannot be had."""
    folder = CACHE / "documentation"
    if (folder / READY).exists():
        return folder
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return _without("no apt-get here: the pages of a Debian package are left out")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for package in DOCUMENTATION:
        command = ["apt-get", "download", "-qq", package]
        if not subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode:
            say(f"unpacking {package} in {folder}")
            [archive] = folder.glob("*.deb")
            subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
            archive.unlink()
            (folder / READY).touch()
            return folder
    return _without("apt-get has no documentation package: its pages are left out")


def _without(reason: str) -> None:
    say(reason)
