"""What is known of connections between two requests."""

from __future__ import annotations

from crawlproj.fetch.kept import KeptConnections, Line


def test_connections_are_forgotten_by_how_long_they_were_not_used() -> None:
    kept = KeptConnections(1)  # knows two
    lines = [Line("127.0.0.1", 80, "127.0.0.1", own_port) for own_port in (1, 2, 3)]
    kept.note(lines[0], [11])
    kept.note(lines[1], [12])
    assert not kept.is_spoilt(lines[0])
    kept.note(lines[2], [13])
    assert [found and found.fd for found in map(kept.find, lines)] == [11, None, 13]
