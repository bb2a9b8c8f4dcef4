"""Which resolved addresses may be contacted.

A web page can link to anything, and a name can resolve to anything, so what a crawler reaches by
them must not be what only its own network is meant to reach. Public addresses are always
contacted; any other only if a setting allows it, or if a seed is there itself.

Pure: knows neither Scrapy nor aiohttp, and resolves no name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

from crawlproj.discover.rules import REDIRECTED

Address: TypeAlias = IPv4Address | IPv6Address
SeedNames: TypeAlias = Callable[[], Collection[str]]
"""Gives the hosts of the seeds up to now, as `example.com`, `127.0.1.1:8000` or `[::1]:80`, and
marked ones that seeds were only redirected to (discover/rules.py)."""

LOOPBACK = "loopback"
PRIVATE = "private"
METADATA = "metadata"
RESERVED = "reserved"
NOT_AN_ADDRESS = "not an address"

ALLOWABLE = (LOOPBACK, PRIVATE)
"""Classes that the setting may name; everything else it gives as a network."""

# https://www.iana.org/assignments/iana-ipv4-special-registry and …-ipv6-special-registry, written
# down because what `ipaddress` calls global differs between versions of Python.
_CLASSES: dict[str, tuple[str, ...]] = {
    # They answer with the credentials of the machine that asks, in one cloud or another.
    METADATA: (
        "169.254.169.254/32",
        "169.254.170.2/32",
        "169.254.170.23/32",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "fd00:ec2::23/128",
        "fd00:ec2::254/128",
    ),
    LOOPBACK: ("127.0.0.0/8", "::1/128"),
    PRIVATE: ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "shared": ("100.64.0.0/10",),
    "unspecified": ("0.0.0.0/8", "::/128"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "documentation": (
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001:db8::/32",
        "3fff::/20",
    ),
    RESERVED: ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4", "2001::/23"),
}
_NETWORKS = [(ip_network(text), name) for name, texts in _CLASSES.items() for text in texts]
_GLOBAL_UNICAST = IPv6Network("2000::/3")

_WRAPPERS = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::/96"), 0),  # compatible
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
"""Networks whose addresses stand for an IPv4 address, and the bits to the right of that."""


def effective(text: str) -> Address:
    """The address that is meant: the IPv4 one inside, if there is one. ValueError if none is."""
    address = ip_address(text.partition("%")[0])
    # :: and ::1 look like wrapped addresses and are none.
    if isinstance(address, IPv4Address) or int(address) <= 1:
        return address
    for network, shift in _WRAPPERS:
        if address in network:
            return IPv4Address(int(address) >> shift & 0xFFFF_FFFF)
    return address


def special_class(address: Address) -> str | None:
    """What kind of special address it is; None for a public one."""
    for network, name in _NETWORKS:
        if address in network:
            return name
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return RESERVED
    return None


def allowed_entries(raw: str | Iterable[str]) -> tuple[str, ...]:
    """The entries of a setting such as `loopback, 10.1.0.0/16`; ValueError if one is neither."""
    given = raw.split(",") if isinstance(raw, str) else raw
    entries = tuple(entry.strip().lower() for entry in given if entry.strip())
    for entry in entries:
        if entry not in ALLOWABLE:
            ip_network(entry, strict=False)
    return entries


class AddressPolicy:
    """Judges addresses by the setting and by the seeds, which may grow while the crawl runs."""

    def __init__(self, allowed: Iterable[str] = (), seed_names: SeedNames = tuple) -> None:
        entries = allowed_entries(allowed)
        self._allowed = [ip_network(one, strict=False) for one in entries if one not in ALLOWABLE]
        self._opened = {one for one in entries if one in ALLOWABLE}
        self._seed_names = seed_names
        self._seeds_read = 0
        self._seed_hosts: set[str] = set()

    def refusal(self, address: str, host: str) -> str | None:
        """Why an address is not contacted on behalf of a host, or None if it may be."""
        try:
            meant = effective(address)
        except ValueError:
            return NOT_AN_ADDRESS
        kind = special_class(meant)
        if kind is None or any(meant in network for network in self._allowed):
            return None
        if kind == METADATA:
            return kind
        return None if kind in self._opened or self._is_seeded(kind, host) else kind

    def _is_seeded(self, kind: str, host: str) -> bool:
        names = self._seed_names()
        if len(names) != self._seeds_read:
            self._seeds_read = len(names)
            self._seed_hosts = {
                _without_port(name) for name in names if not name.startswith(REDIRECTED)
            }
            self._opened |= {found for one in self._seed_hosts if (found := _class_of_host(one))}
        return kind in self._opened or host.lower().rstrip(".") in self._seed_hosts


def _without_port(name: str) -> str:
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].lower().rstrip(".")


def _class_of_host(host: str) -> str | None:
    """The special class of a host that is an address; None for a name or a public address."""
    try:
        return special_class(effective(host))
    except ValueError:
        return None
