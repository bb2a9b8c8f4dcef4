"""What holds for this process even where a library forgets its own limits: its memory, and an end
that nothing can put off."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from contextlib import suppress
from pathlib import Path

MARGIN_MB = 256
"""Beside what was asked for: for threads, and for what Python makes of an answer."""


def limit_memory(more_mb: int) -> None:
    """Let the process have so much more memory than now, and a margin. Only Linux says how much it
    has; elsewhere nothing is limited."""
    with suppress(OSError, ValueError, IndexError):
        now = _data_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = [now + ((more_mb + MARGIN_MB) << 20)]
        wanted += [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(wanted), hard))


def _data_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmData:")[2].split()[0]) << 10


def end_at_once(text: str, *left: Path) -> None:
    """Say why, remove files and folders that would be left, and end the process from any thread,
    whatever the others are at."""
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
    os._exit(1)
