"""What the peers need, in a cache folder and never in the project: virtual environments, a folder
of Node packages, and what is in Debian packages: pages, and wget2."""

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
SEVERAL = ("git-doc", "sqlite3-doc", "debian-policy")
"""Debian packages that have the same name in every release."""
WGET2 = ("wget2", "libwget0", "libwget2", "libwget3", "libgpgme11", "libgpgme11t64", "libassuan9")
"""The program and the libraries that few systems have already, by their names in some releases."""


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
    if (folder / READY).exists() or any(_unpacked(folder, name) for name in DOCUMENTATION):
        (folder / READY).touch()
        return folder
    return _without("apt-get has no documentation package: its pages are left out")


@cache
def documentation_of_several() -> list[Path]:
    """A folder of HTML pages for each package; none at all where one of them cannot be had, for
    figures would not be alike."""
    folders = [CACHE / name for name in SEVERAL]
    for folder in folders:
        if not (folder / READY).exists() and not _unpacked(folder, folder.name):
            _without(f"apt-get has no {folder.name}: webs of its pages are left out")
            return []
        (folder / READY).touch()
    return folders


@cache
def package(name: str) -> Path | None:
    """A folder with the files of a Debian package; none where that cannot be had."""
    folder = CACHE / name
    if not (folder / READY).exists() and not _unpacked(folder, name):
        return _without(f"apt-get has no {name}: it is left out")
    (folder / READY).touch()
    return folder


@cache
def wget2() -> list[str] | None:
    """The command: of this system, or of Debian's packages in a folder of their own."""
    if shutil.which("wget2"):
        return ["wget2"]
    folder = CACHE / "wget2"
    if not (folder / READY).exists():
        for package in WGET2:
            _unpacked(folder, package)
    libraries = {str(file.parent) for file in folder.glob("usr/lib/**/*.so.*")}
    command = ["env", f"LD_LIBRARY_PATH={':'.join(sorted(libraries))}", f"{folder}/usr/bin/wget2"]
    if subprocess.run([*command, "--version"], check=False, capture_output=True).returncode:
        return _without("apt-get has no wget2 that runs here: it is left out")
    (folder / READY).touch()
    return command


def _unpacked(folder: Path, package: str) -> bool:
    """Put the files of a Debian package into a folder; False where it cannot be had."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    command = ["apt-get", "download", "-qq", package]
    if subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode:
        return False
    say(f"unpacking {package} in {folder}")
    [archive] = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    archive.unlink()
    return True


def _without(reason: str) -> None:
    say(reason)
