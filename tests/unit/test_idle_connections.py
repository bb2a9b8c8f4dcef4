"""As many connections are kept as the open files of the process allow, fairly by host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crawlproj.download import may_keep

ROOT = Path(__file__).parents[2]
ASK = """
import resource
from crawlproj.download import most_idle
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for allowed in {allowed}:
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    print(most_idle())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_quarter_of_the_open_files_goes_to_hosts_that_rest() -> None:
    command = [sys.executable, "-c", ASK.format(allowed=[100, 256, 1024])]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    assert printed.split() == ["64", "64", "256"]


@pytest.mark.parametrize(
    ("hosts", "kept", "may"),
    [
        (0, 0, True),
        (1, 99, True),
        (1, 100, False),
        (10, 9, True),
        (10, 10, False),
        (99, 0, True),
        (100, 0, False),
        (100, 1, False),
    ],
)
def test_a_host_keeps_its_share_of_a_hundred_connections(hosts: int, kept: int, may: bool) -> None:
    assert may_keep(hosts, kept, most=100) is may
