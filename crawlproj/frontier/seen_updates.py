"""What workers tell each other about the seen filter, so that a link that one of them has pushed is
no question to Redis for the others. Without it, every worker asks once about every link that it
meets, and Redis has the more to do a page the more workers there are.

With each push a worker tells which bits its last one has set, and with each lease it hears what the
others have told since. The last push, not this one: only what is certain is told, and replicas of
Redis may lack this one yet; nor is anything told to a server that was restarted since, or took
over, and may have lost it. Whoever misses some news, or hears it late, merely asks Redis.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from struct import error as struct_error
from struct import pack as pack_numbers
from struct import unpack as unpack_numbers

from crawlproj.frontier.bloom import Replica
from crawlproj.frontier.wire import pack, unpack


class News:
    """Of one worker and one shard."""

    def __init__(self) -> None:
        self.untold = b""
        """What the next push tells."""
        self.server = b""
        """Where those bits were set."""
        self.heard = b"0"
        """The id of the last news that was heard."""

    def note(self, server: bytes, layer: int, offsets: list[int]) -> None:
        """A push that was sent to this server has set these bits of a layer; what was to be told
        before has been."""
        self.server = server
        bits = pack_numbers(f">{len(offsets)}I", *offsets)
        self.untold = pack([layer, bits]) if bits else b""

    def forget(self) -> None:
        """The bits may have been lost."""
        self.untold = b""

    def hear(self, told: Iterable[bytes], last: bytes, replica: Replica) -> None:
        """Set what others have told; of layers that this worker does not know it will learn."""
        for one in told:
            # What cannot be read is not for us.
            with suppress(ValueError, TypeError, IndexError, struct_error):
                layer, bits = unpack(one)
                if 0 <= layer < len(replica.layers):
                    replica.add(layer, list(unpack_numbers(f">{len(bits) // 4}I", bits)))
        self.heard = last
