"""The seen filter: its shape, its growth, and how often it is wrong."""

from __future__ import annotations

import math

import pytest
from bitarray import bitarray
from hypothesis import given
from hypothesis import strategies as st
from pybloom_live import BloomFilter
from redis import Redis

from crawlproj.errors import ConfigError
from crawlproj.frontier.bloom import Geometry, Replica, expected_error, layer_bits

REDIS_LIMIT_BITS = 512 * 2**20 * 8


def url(number: int) -> str:
    return f"https://www.example.com/catalogue/items/{number:x}?page={number % 7}"


# Geometry


@pytest.mark.parametrize("capacity", [1, 100, 54_321])
@pytest.mark.parametrize("error_rate", [0.1, 0.001, 1e-6])
def test_the_shape_of_a_layer_is_pybloom_lives(capacity: int, error_rate: float) -> None:
    layer = Geometry(capacity, error_rate).layer(0)
    wanted = BloomFilter(capacity, error_rate / 2)
    assert (layer.num_bits, layer.num_slices) == (wanted.num_bits, wanted.num_slices)
    assert layer.num_bits == layer_bits(capacity, error_rate / 2)


def test_each_layer_is_twice_as_large_with_half_the_error() -> None:
    geometry = Geometry(1000, 0.01)
    assert [geometry.layer_capacity(n) for n in range(4)] == [1000, 2000, 4000, 8000]
    assert [geometry.layer_error_rate(n) for n in range(3)] == [0.005, 0.0025, 0.00125]


@given(st.floats(1e-9, 0.49))
def test_the_errors_of_all_layers_together_stay_below_the_configured_rate(rate: float) -> None:
    geometry = Geometry(10, rate)
    assert sum(geometry.layer_error_rate(layer) for layer in range(64)) <= rate


@pytest.mark.parametrize("error_rate", [0.49, 0.01, 0.001, 1e-9])
def test_layers_stop_growing_where_a_redis_string_ends(error_rate: float) -> None:
    geometry = Geometry(10_000_000, error_rate)
    for layer in range(64):
        bits = layer_bits(geometry.layer_capacity(layer), geometry.layer_error_rate(layer))
        assert bits <= REDIS_LIMIT_BITS
    assert bits > 0.99 * REDIS_LIMIT_BITS


def test_the_default_first_layer_takes_twenty_megabytes() -> None:
    megabytes = layer_bits(10_000_000, Geometry(10_000_000, 0.001).layer_error_rate(0)) / 8 / 1e6
    assert 19 < megabytes < 20


def test_a_first_layer_beyond_what_redis_can_hold_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError) as caught:
        Geometry(400_000_000, 0.001)
    assert str(caught.value) == (
        "SEEN_CAPACITY=400000000 needs a bitmap of 754 MB a shard, and Redis holds at most 512 MB "
        "in one: raise FRONTIER_SHARDS or lower it (the filter grows by itself)"
    )


@pytest.mark.parametrize(
    ("capacity", "error_rate", "message"),
    [
        (0, 0.001, "SEEN_CAPACITY=0: give a number of URLs, 1 or more"),
        (10, 0, "SEEN_ERROR_RATE=0: give a share between 0 and 0.5, such as 0.001"),
        (10, 0.5, "SEEN_ERROR_RATE=0.5: give a share between 0 and 0.5, such as 0.001"),
    ],
)
def test_an_impossible_shape_is_refused(capacity: int, error_rate: float, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Geometry(capacity, error_rate)
    assert str(caught.value) == message


# The replica


def test_a_key_is_seen_once_its_bits_are_there() -> None:
    replica = Replica(Geometry(100, 0.001))
    offsets = replica.offsets(url(1))
    assert url(1) not in replica
    replica.add(0, offsets[0])
    assert url(1) in replica
    assert url(2) not in replica


def test_a_key_is_looked_up_in_every_layer_and_recorded_in_the_last() -> None:
    replica = Replica(Geometry(10, 0.001))
    replica.add(0, replica.offsets(url(1))[0])
    replica.grow(3)
    assert [len(bits) for bits in replica.offsets(url(2))] == [
        layer.num_slices for layer in replica.layers
    ]
    replica.add(2, replica.offsets(url(2))[2])
    assert url(1) in replica and url(2) in replica
    assert [layer.bitarray.any() for layer in replica.layers] == [True, False, True]


def test_growing_keeps_what_is_there_and_never_shrinks() -> None:
    replica = Replica(Geometry(10, 0.001))
    replica.grow(2)
    kept = list(replica.layers)
    replica.grow(1)
    replica.grow(2)
    assert all(was is now for was, now in zip(kept, replica.layers, strict=True))


@given(st.sets(st.text(st.characters(codec="utf-8"), max_size=30), max_size=30))
def test_the_offsets_are_where_pybloom_live_looks(keys: set[str]) -> None:
    replica = Replica(Geometry(50, 0.01))
    theirs = BloomFilter(50, 0.005)
    for key in keys:
        theirs.add(key, skip_check=True)
        replica.add(0, replica.offsets(key)[0])
    assert replica.layers[0].bitarray == theirs.bitarray


@pytest.mark.parametrize("keys", [0, 1, 3, 100])
def test_a_bitmap_of_redis_is_taken_over_bit_by_bit(redis: Redis, keys: int) -> None:
    written, read = Replica(Geometry(100, 0.01)), Replica(Geometry(100, 0.01))
    for number in range(keys):
        written.add(0, written.offsets(url(number))[0])
        for offset in written.offsets(url(number))[0]:
            redis.setbit("bits", offset, 1)
    read.load(0, redis.get("bits") or b"")  # type: ignore[arg-type]
    assert read.layers[0].bitarray == written.layers[0].bitarray
    assert all(url(number) in read for number in range(keys))
    read.add(0, read.offsets("one more")[0])
    assert "one more" in read


def test_a_bitmap_that_is_longer_than_its_layer_is_cut() -> None:
    replica = Replica(Geometry(10, 0.01))
    replica.load(0, b"\xff" * 1000)
    assert len(replica.layers[0].bitarray) == replica.layers[0].num_bits


def test_taking_over_an_empty_bitmap_of_millions_costs_no_more_than_its_bits() -> None:
    replica = Replica(Geometry(10_000_000, 0.001))
    replica.load(0, b"")
    assert isinstance(replica.layers[0].bitarray, bitarray)
    assert replica.layers[0].bitarray.nbytes < 20_000_000


# How often it is wrong


def test_the_expected_error_grows_with_the_items_up_to_the_configured_rate() -> None:
    geometry = Geometry(1000, 0.01)
    rates = [expected_error(geometry, [items]) for items in (0, 100, 500, 1000)]
    assert rates[0] == 0
    assert rates == sorted(rates)
    assert rates[-1] <= 0.0051
    assert expected_error(geometry, [1000, 2000, 4000, 8000]) <= 0.01


def _measure(geometry: Geometry, items: int) -> tuple[float, Replica, list[int]]:
    """Push so many new URLs through a filter as the scripts do; the share it took for seen."""
    replica, mistaken, recorded = Replica(geometry), 0, [0]
    for number in range(items):
        if url(number) in replica:
            mistaken += 1
            continue
        replica.add(len(replica.layers) - 1, replica.offsets(url(number))[-1])
        recorded[-1] += 1
        if recorded[-1] >= geometry.layer_capacity(len(recorded) - 1):
            recorded.append(0)
            replica.grow(len(recorded))
    return mistaken / items, replica, recorded


def _false_positives(replica: Replica, first: int, probes: int) -> float:
    return sum(url(number) in replica for number in range(first, first + probes)) / probes


def test_a_filter_that_has_outgrown_its_first_layers_keeps_its_rate() -> None:
    geometry = Geometry(10_000, 0.01)
    missed, replica, recorded = _measure(geometry, 70_000)
    assert len(recorded) == 3
    assert missed <= 0.01
    measured = _false_positives(replica, 10_000_000, 30_000)
    expected = expected_error(geometry, recorded)
    assert measured <= 0.01
    assert math.isclose(measured, expected, rel_tol=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("first_layer", [1_000_000, 100_000])
def test_a_million_urls_are_told_apart_within_the_configured_rate(first_layer: int) -> None:
    missed, replica, recorded = _measure(Geometry(first_layer, 0.001), 1_000_000)
    measured = _false_positives(replica, 10**9, 1_000_000)
    print(f"layers {recorded}, lost {missed:.6%}, false positives {measured:.6%}")
    assert missed <= 0.001
    assert measured <= 0.001
