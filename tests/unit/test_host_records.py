"""A host's record as commands read it."""

from __future__ import annotations

import pytest

from crawlproj.frontier.hosts import HostRecord, levels_of, read_host
from crawlproj.frontier.wire import pack


def record(*fields: object) -> bytes:
    return b"".join(map(pack, fields))


def test_what_only_some_hosts_have_is_absent_from_the_others() -> None:
    plain = record([-3, 5], 1, False, 7, 1)
    troubled = record(4, 0, [99], 0, 0, {"failures": 2, "hold": 120, "mentions": 4, "pause": 9})
    assert read_host(plain) == HostRecord([-3, 5], 1, [], 7, "ready", 0, None)
    assert read_host(troubled) == HostRecord([4], 0, [99], 0, "", 2, 120, pause_ms=9)


@pytest.mark.parametrize("damaged", [b"", b"\xc1", b"text", pack(5), record([1], 0, [], 0, 5)])
def test_a_damaged_record_is_no_record_and_has_no_levels(damaged: bytes) -> None:
    with pytest.raises(ValueError):
        read_host(damaged)
    assert levels_of(damaged) == []
