"""Which resolved addresses may be contacted.

A web page can link to anything, and a name can resolve to anything, so what a crawler reaches by
them must not be what only its own network is meant to reach. Public addresses are always
contacted; any other only if a setting allows it, or if a seed is at that very address.

Pure: knows neither Scrapy nor libcurl, and resolves no name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

from crawlproj.config.choices import ALLOWABLE, LOOPBACK, PRIVATE
from crawlproj.config.kinds import allowed_entries
from crawlproj.discover.rules import UNASKED

Address: TypeAlias = IPv4Address | IPv6Address
SeedNames: TypeAlias = Callable[[], Collection[str]]
"""Gives the hosts of the seeds up to now, as `example.com`, `127.0.1.1:8000` or `[::1]:80`, and
marked ones that nobody has asked for (discover/rules.py)."""

METADATA = "metadata"
RESERVED = "reserved"
NOT_AN_ADDRESS = "not an address"

REMEMBERED = 200_000
"""Seeded names whose first class of address a worker remembers (some 150 bytes each). Names beyond
are public ones to it: at a special address they need the setting."""

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


def _no_seeds() -> Collection[str]:
    return ()


class AddressPolicy:
    """Judges addresses by the setting and by the seeds, which may grow while the crawl runs.

    A seed that is an address opens that address. A seed that is a name is believed for the classes
    of address that it first resolved to, as this worker saw it: one that was public and turns
    private has been turned against us.
    """

    def __init__(self, allowed: Iterable[str] = (), seed_names: SeedNames | None = None) -> None:
        entries = allowed_entries(allowed)
        self._allowed = [ip_network(one, strict=False) for one in entries if one not in ALLOWABLE]
        self._opened = {one for one in entries if one in ALLOWABLE}
        self._seed_names = seed_names or _no_seeds
        self._seeds_read = 0
        self._seed_hosts: set[str] = set()
        self._seed_addresses: set[Address] = set()
        self._believed: dict[str, frozenset[str]] = {}

    def refusals(self, host: str, addresses: Iterable[str], port: int = 0) -> dict[str, str]:
        """The addresses, of those that a host has resolved to, that are not contacted on its
        behalf, and why."""
        name = host.lower().rstrip(".")
        special = {text: kind for text in addresses if (kind := _kind(text))}
        if not special:
            self._remember_public(name, port)
            return {}
        believed = self._classes_of_seed(name, special.values())
        return {
            text: kind
            for text, kind in special.items()
            if not self._may_contact(_read(text), kind, believed)
        }

    def refusal(self, address: str, host: str) -> str | None:
        """Why an address is not contacted on behalf of a host, or None if it may be."""
        return self.refusals(host, [address]).get(address)

    def _may_contact(self, address: Address | None, kind: str, believed: Container[str]) -> bool:
        if address is None:
            return False
        if any(address in network for network in self._allowed):
            return True
        if kind == METADATA:
            return False
        return kind in self._opened or kind in believed or address in self._seed_addresses

    def _remember_public(self, name: str, port: int) -> None:
        """Note that a seeded name is public. Reads no list of seeds: most connections come here."""
        if name in self._believed or len(self._believed) >= REMEMBERED:
            return
        names = self._seed_names()
        if name in names or f"{name}:{port}" in names:
            self._believed[name] = frozenset()

    def _classes_of_seed(self, name: str, found: Iterable[str]) -> frozenset[str]:
        """The special classes that a name may resolve to because it is a seed."""
        self._read_seeds()
        if name not in self._believed and name in self._seed_hosts:
            if len(self._believed) >= REMEMBERED:
                return frozenset()
            self._believed[name] = frozenset(found)
        return self._believed.get(name, frozenset())

    def _read_seeds(self) -> None:
        names = self._seed_names()
        if len(names) == self._seeds_read:
            return
        self._seeds_read = len(names)
        hosts = {_without_port(name) for name in names if not name.startswith(UNASKED)}
        self._seed_addresses = {address for one in hosts if (address := _read(one))}
        self._seed_hosts = {one for one in hosts if not _read(one)}


def _without_port(name: str) -> str:
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].lower().rstrip(".")


def _kind(text: str) -> str | None:
    """Why an address needs to be allowed; None for a public one."""
    address = _read(text)
    return special_class(address) if address else NOT_AN_ADDRESS


def _read(text: str) -> Address | None:
    """The address that is meant; None if it is none, but a name."""
    try:
        return effective(text)
    except ValueError:
        return None
