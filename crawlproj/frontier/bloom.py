"""The seen filter: geometry, the offsets of a key, and a worker's own copy of the bits.

Pure: what it computes is sent to Redis elsewhere. Geometry and hashes are pybloom-live's.
The filter grows in layers: when one is full the next opens, twice as large and with half
the error, so that the errors of all layers together stay below the configured rate. A key
is looked up in every layer and recorded in the last one only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bitarray import bitarray
from bitarray.util import zeros
from pybloom_live import BloomFilter

from crawlproj.errors import ConfigError

Offsets = list[list[int]]
"""Bits to look at, by layer."""

_REDIS_STRING_BITS = 512 * 1024 * 1024 * 8
_GROWTH = 2


@dataclass(frozen=True)
class Geometry:
    """The shape of every layer, fixed for a crawl by its first capacity and error rate."""

    capacity: int
    error_rate: float

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ConfigError(f"SEEN_CAPACITY={self.capacity}: give a number of URLs, 1 or more")
        if not 0 < self.error_rate < 0.5:
            raise ConfigError(
                f"SEEN_ERROR_RATE={self.error_rate}: give a share between 0 and 0.5, such as 0.001"
            )
        bits = layer_bits(self.capacity, self.layer_error_rate(0))
        if bits > _REDIS_STRING_BITS:
            raise ConfigError(
                f"SEEN_CAPACITY={self.capacity} needs a bitmap of {bits // 8 // 2**20} MB a shard, "
                "and Redis holds at most 512 MB in one: raise FRONTIER_SHARDS or lower it "
                "(the filter grows by itself)"
            )

    def layer_error_rate(self, layer: int) -> float:
        """Half of the whole for the first layer, a quarter for the second, and so on."""
        return float(self.error_rate * 0.5 ** (layer + 1))

    def layer_capacity(self, layer: int) -> int:
        """Twice the layer before, as far as one Redis string can hold it."""
        wanted: int = self.capacity * _GROWTH**layer
        return min(wanted, _fitting(self.layer_error_rate(layer)))

    def layer(self, layer: int) -> BloomFilter:
        """An empty filter of that layer's shape."""
        return BloomFilter(self.layer_capacity(layer), self.layer_error_rate(layer))


def layer_bits(capacity: int, error_rate: float) -> int:
    slices = math.ceil(math.log2(1 / error_rate))
    return slices * math.ceil(capacity * -math.log(error_rate) / (slices * math.log(2) ** 2))


def _fitting(error_rate: float) -> int:
    return int(_REDIS_STRING_BITS * math.log(2) ** 2 / -math.log(error_rate)) - 1


class Replica:
    """A worker's copy of a shard's filter.

    Bits are only ever set, so what the copy calls seen is seen in Redis too; what it does
    not know may still be. It must be thrown away when the server behind it has changed.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.layers: list[BloomFilter] = [geometry.layer(0)]

    def grow(self, layers: int) -> None:
        """Know of that many layers."""
        while len(self.layers) < layers:
            self.layers.append(self.geometry.layer(len(self.layers)))

    def __contains__(self, key: str) -> bool:
        for layer in reversed(self.layers):  # noqa: SIM110  # asked of every new link: any() is slow
            if key in layer:
                return True
        return False

    def offsets(self, key: str) -> Offsets:
        """Where the key's bits are, in each layer."""
        return [_offsets(layer, key) for layer in self.layers]

    def add(self, layer: int, offsets: list[int]) -> None:
        """Set bits that Redis has set in that layer, of one key or of many."""
        self.layers[layer].bitarray[offsets] = True

    def load(self, layer: int, raw: bytes | bytearray) -> None:
        """Take over a layer as Redis holds it: most significant bit first, tail not stored.

        A layer may take hundreds of megabytes: there is one copy of it beside `raw`, at any time.
        """
        bloom = self.layers[layer]
        bloom.bitarray = bits = bitarray(endian="big")
        bits.frombytes(raw)
        bits.extend(zeros(max(0, bloom.num_bits - len(bits))))
        del bits[bloom.num_bits :]


def _offsets(layer: BloomFilter, key: str) -> list[int]:
    step = layer.bits_per_slice
    return [slice_ * step + at for slice_, at in enumerate(layer.make_hashes(key))]


def expected_error(geometry: Geometry, items: list[int]) -> float:
    """The share of new keys that layers with so many items call seen."""
    missed = 1.0
    for layer, count in enumerate(items):
        bloom = geometry.layer_error_rate(layer)
        slices = math.ceil(math.log2(1 / bloom))
        bits = layer_bits(geometry.layer_capacity(layer), bloom) / slices
        missed *= 1 - (1 - math.exp(-count / bits)) ** slices
    return 1 - missed
