"""Which addresses may be contacted, as tables."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlproj.config.kinds import allowed_entries
from crawlproj.fetch import addresses
from crawlproj.fetch.addresses import AddressPolicy, effective, special_class

PUBLIC = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "223.255.255.255",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:0808:0808::1",
]
SPECIAL = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "fc00::1": "private",
    "fd12:3456::1": "private",
    "fec0::1": "private",
    "169.254.1.1": "link-local",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "169.254.169.254": "metadata",
    "fd00:ec2::254": "metadata",
    "100.64.0.1": "shared",
    "100.127.255.255": "shared",
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "::": "unspecified",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "192.0.2.1": "documentation",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "2001:db8::1": "documentation",
    "192.0.0.1": "reserved",
    "198.18.0.1": "reserved",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "2001::1": "reserved",
    "64:ff9b:1::10.0.0.1": "reserved",
    "100::1": "reserved",
    "4000::1": "reserved",
    # An IPv4 address inside is what counts.
    "::ffff:127.0.0.1": "loopback",
    "::127.0.0.1": "loopback",
    "::ffff:0:127.0.0.1": "loopback",
    "64:ff9b::127.0.0.1": "loopback",
    "64:ff9b::169.254.169.254": "metadata",
    "::ffff:a9fe:a9fe": "metadata",
    "2002:7f00:0001::": "loopback",
    "2002:0a00:0001::1": "private",
    "::ffff:10.0.0.1": "private",
}


def policy(*seeds: str, allowed: str = "") -> AddressPolicy:
    return AddressPolicy(allowed_entries(allowed), lambda: seeds)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_contacted(address: str) -> None:
    assert policy().refusal(address, "example.com") is None


@pytest.mark.parametrize(("address", "kind"), SPECIAL.items())
def test_any_other_address_is_refused_by_its_class(address: str, kind: str) -> None:
    assert policy().refusal(address, "example.com") == kind


@pytest.mark.parametrize("text", ["", "example.com", "127.1", "1.2.3.4.5", "::g", "0x7f000001"])
def test_what_is_no_address_is_refused(text: str) -> None:
    assert policy().refusal(text, "example.com") == "not an address"


@pytest.mark.parametrize(
    ("allowed", "address", "is_allowed"),
    [
        ("loopback", "127.0.0.1", True),
        ("loopback", "::1", True),
        ("loopback", "10.0.0.1", False),
        ("private", "10.0.0.1", True),
        ("private", "fd00::1", True),
        ("private", "127.0.0.1", False),
        ("private", "fd00:ec2::254", False),
        (" Loopback , 10.1.0.0/16", "10.1.2.3", True),
        ("loopback, 10.1.0.0/16", "10.2.0.1", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3/8", "10.9.9.9", True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("169.254.169.254", "169.254.169.254", True),
        ("fc00::/7", "fd00:ec2::254", True),
        ("0.0.0.0/0", "::1", False),
    ],
)
def test_a_setting_allows_what_it_names(allowed: str, address: str, is_allowed: bool) -> None:
    assert (policy(allowed=allowed).refusal(address, "example.com") is None) == is_allowed


@pytest.mark.parametrize("entry", ["localhost", "10.0.0.0/33", "metadata", "10.0.0", "loopback;"])
def test_an_entry_that_is_neither_a_network_nor_a_name_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        allowed_entries(f"loopback, {entry}")


@pytest.mark.parametrize(
    ("seed", "address", "host", "is_allowed"),
    [
        # A seed that is an address opens that one, in whatever spelling, and no other.
        ("127.0.0.1:8000", "127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1:8000", "::ffff:127.0.0.1", "::ffff:7f00:1", True),
        ("[::ffff:127.0.0.1]", "127.0.0.1", "127.0.0.1", True),
        ("[::1]:80", "::1", "::1", True),
        ("169.254.1.1", "169.254.1.1", "169.254.1.1", True),
        ("127.0.0.1:8000", "127.0.99.99", "127.0.99.99", False),
        ("127.0.0.1:8000", "127.0.99.99", "evil.example", False),
        ("127.0.0.1:8000", "::ffff:127.0.99.99", "::ffff:7f00:6363", False),
        ("127.0.0.1:8000", "::1", "::1", False),
        ("[::1]:80", "127.0.0.1", "127.0.0.1", False),
        ("192.168.1.5", "10.0.0.1", "10.0.0.1", False),
        ("192.168.1.5", "192.168.1.6", "192.168.1.6", False),
        ("169.254.1.1", "169.254.2.2", "evil.example", False),
        # A public one, or a name, does not.
        ("8.8.8.8", "10.0.0.1", "evil.example", False),
        ("example.com", "10.0.0.1", "evil.example", False),
        # A seed that is a name may be anywhere itself, on any port.
        ("intranet.example", "10.0.0.1", "intranet.example", True),
        ("intranet.example:8080", "10.0.0.1", "Intranet.Example.", True),
        ("intranet.example", "10.0.0.1", "www.intranet.example", False),
        # Where a seed was only redirected to is no seed.
        (">10.0.0.1", "10.0.0.1", "10.0.0.1", False),
        (">intranet.example:80", "10.0.0.1", "intranet.example", False),
        # Metadata is never opened by a seed.
        ("169.254.169.254", "169.254.169.254", "169.254.169.254", False),
        ("169.254.1.1", "169.254.169.254", "evil.example", False),
        ("intranet.example", "169.254.169.254", "intranet.example", False),
    ],
)
def test_a_seed_opens_what_it_stands_for(
    seed: str, address: str, host: str, is_allowed: bool
) -> None:
    assert (policy(seed).refusal(address, host) is None) == is_allowed


def test_seeds_that_come_later_count_from_then_on() -> None:
    seeds: set[str] = set()
    judge = AddressPolicy(seed_names=lambda: seeds)
    assert judge.refusal("127.0.0.1", "a.example") == "loopback"
    seeds.add("a.example")
    assert judge.refusal("127.0.0.1", "a.example") is None
    assert judge.refusal("127.0.0.1", "b.example") == "loopback"
    seeds.add("127.0.0.1:8000")
    assert judge.refusal("127.0.0.1", "b.example") is None


@pytest.mark.parametrize("seed", ["a.example", "a.example:8080"])
def test_a_seeded_name_that_was_public_and_turns_private_is_refused(seed: str) -> None:
    judge = policy(seed)
    assert judge.refusals("a.example", ["1.1.1.1"], 8080) == {}
    assert judge.refusals("A.example.", ["10.0.0.1"], 80) == {"10.0.0.1": "private"}
    assert judge.refusals("a.example", ["1.1.1.1", "10.0.0.1"]) == {"10.0.0.1": "private"}


def test_a_seeded_name_is_believed_for_the_classes_that_it_first_resolved_to() -> None:
    judge = policy("a.example", "b.example")
    assert judge.refusals("a.example", ["10.0.0.1", "1.1.1.1"]) == {}
    assert judge.refusals("a.example", ["192.168.0.7"]) == {}
    assert judge.refusals("a.example", ["127.0.0.1"]) == {"127.0.0.1": "loopback"}
    assert judge.refusals("b.example", ["127.0.0.1", "::1"]) == {}
    assert judge.refusals("c.example", ["10.0.0.1"]) == {"10.0.0.1": "private"}


def test_of_more_seeds_than_are_remembered_none_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "REMEMBERED", 1)
    judge = policy("a.example", "b.example", "c.example")
    assert judge.refusals("a.example", ["10.0.0.1"]) == {}
    assert judge.refusals("b.example", ["1.1.1.1"]) == {}
    assert judge.refusals("c.example", ["10.0.0.1"]) == {"10.0.0.1": "private"}
    assert judge.refusals("a.example", ["10.0.0.1"]) == {}


@given(st.ip_addresses(v=4))
def test_an_address_in_a_wrapper_is_judged_as_without(inner: IPv4Address) -> None:
    wrapped = [
        f"::ffff:{inner}",
        f"64:ff9b::{inner}",
        str(IPv6Address(0x2002 << 112 | int(inner) << 80 | 1)),
    ]
    assert {policy().refusal(one, "x") for one in wrapped} == {policy().refusal(str(inner), "x")}


@given(st.ip_addresses())
def test_nothing_that_python_calls_private_is_taken_for_public(
    address: IPv4Address | IPv6Address,
) -> None:
    meant = effective(str(address))
    if special_class(meant) is None:
        assert not meant.is_private
        assert not meant.is_multicast
        assert not meant.is_reserved
