"""What workers add to the seen filter, sent to the others: a link that one worker has pushed costs
the others no question to Redis. Without these updates every worker would ask once about every link
that it meets, and a page would cost Redis the more, the more workers there are.

A push carries the bits that the push before it has set; a lease brings what other workers have sent
since the last lease. Bits are sent one push late, for only then it is certain that they were set:
replicas of Redis may still lack them at first. They are not sent to a server that was restarted
since, or took over, and may have lost them. A worker that misses an update merely asks Redis.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from struct import error as struct_error
from struct import pack as pack_numbers
from struct import unpack as unpack_numbers

from crawlproj.frontier.bloom import Replica
from crawlproj.frontier.wire import pack, unpack


class SeenUpdates:
    """Of one worker and one shard."""

    def __init__(self) -> None:
        self.unsent = b""
        """What the next push sends."""
        self.server = b""
        """Where those bits were set."""
        self.last_id = b"0"
        """The id of the last update that was read."""

    def note(self, server: bytes, layer: int, offsets: list[int]) -> None:
        """A push that was sent to this server has set these bits of a layer; what was to be
        sent before has been."""
        self.server = server
        bits = pack_numbers(f">{len(offsets)}I", *offsets)
        self.unsent = pack([layer, bits]) if bits else b""

    def forget(self) -> None:
        """The bits may have been lost."""
        self.unsent = b""

    def apply(self, updates: Iterable[bytes], last: bytes, replica: Replica) -> None:
        """Set the bits that others have sent; those of layers not known here come later."""
        for one in updates:
            # What cannot be read is not for us.
            with suppress(ValueError, TypeError, IndexError, struct_error):
                layer, bits = unpack(one)
                if 0 <= layer < len(replica.layers):
                    replica.add(layer, list(unpack_numbers(f">{len(bits) // 4}I", bits)))
        self.last_id = last
