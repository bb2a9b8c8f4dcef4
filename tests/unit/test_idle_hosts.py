"""Connections are kept for as many hosts as the open files of the process allow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASK = """
import resource
from crawlproj.download import idle_hosts
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for allowed in {allowed}:
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    print(idle_hosts())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_quarter_of_the_open_files_goes_to_hosts_that_rest() -> None:
    command = [sys.executable, "-c", ASK.format(allowed=[100, 256, 1024])]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    assert printed.split() == ["64", "64", "256"]
