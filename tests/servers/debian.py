"""Programs that some tests need and that no Python package carries: a browser, a Prometheus, a
wrong clock.

`python -m tests.servers.debian` installs the missing ones where it may, as root on Debian (a
container, a CI machine); elsewhere it says what is missing, and the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

PROGRAMS = {
    "chromium": "chromium",
    "faketime": "faketime",
    "prometheus": "prometheus",
    "promtool": "prometheus",
}
"""Each with the package of Debian that has it."""


def needed(name: str) -> str:
    """The path of a program; skips the test where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {PROGRAMS[name]})")
    return found


def missing() -> list[str]:
    """The packages whose programs are not there."""
    return sorted({package for name, package in PROGRAMS.items() if not shutil.which(name)})


def install(packages: list[str]) -> bool:
    """True if they are there now."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in ("update", "install -y --no-install-recommends " + " ".join(packages)):
        command = ["apt-get", *words.split()]
        if subprocess.run(command, env=environment, check=False, capture_output=True).returncode:
            return False
    return not missing()


def main() -> None:
    packages = missing()
    if not packages:
        return
    names = " ".join(packages)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing {names} for the tests that need them …", flush=True)
        if install(packages):
            return
    print(f"Tests that need these are skipped: {names} (apt-get install {names})", file=sys.stderr)


if __name__ == "__main__":
    main()
