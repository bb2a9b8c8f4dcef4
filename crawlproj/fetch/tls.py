"""TLS as the settings have it: whom to trust, who we are, which versions; and sessions that are
taken up again, so that a host whose connection was closed costs half a handshake."""

from __future__ import annotations

import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pycurl

from crawlproj.config import Config
from crawlproj.errors import ConfigError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

Options = list[tuple[int, Any]]

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep the certificates that they trust, in one file: libcurl reads that once, and a
folder with every connection."""

SHARES = 128
"""Stores of TLS sessions. libcurl keeps those of 25 hosts in one, so hosts are spread over many."""

_LOWEST = {
    "TLSv1.0": pycurl.SSLVERSION_TLSv1_0,
    "TLSv1.1": pycurl.SSLVERSION_TLSv1_1,
    "TLSv1.2": pycurl.SSLVERSION_TLSv1_2,
    "TLSv1.3": pycurl.SSLVERSION_TLSv1_3,
}
_HIGHEST = {
    "TLSv1.0": pycurl.SSLVERSION_MAX_TLSv1_0,
    "TLSv1.1": pycurl.SSLVERSION_MAX_TLSv1_1,
    "TLSv1.2": pycurl.SSLVERSION_MAX_TLSv1_2,
    "TLSv1.3": pycurl.SSLVERSION_MAX_TLSv1_3,
}


class Tls:
    """libcurl's options for TLS, and what they lean on: close it when no transfer is left."""

    def __init__(self, settings: BaseSettings) -> None:
        config = Config.from_settings(settings)
        self._bundle: Path | None = None
        self._own = _client_files(config.client_certificates)
        self._shares: dict[int, Any] = {}
        self.options: Options = [
            (pycurl.SSLVERSION, _versions(settings)),
            *_ciphers(settings),
            *self._trust(config, is_verified=settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES")),
        ]

    def client_options(self, host: str) -> Options:
        """With which certificate we show a host who we are, if we do."""
        if host not in self._own:
            return []
        certificate, key = self._own[host]
        return [(pycurl.SSLCERT, certificate), (pycurl.SSLKEY, key)]

    def sessions(self, host: str) -> Any:
        """The store for the TLS sessions of a host: a share handle."""
        number = hash(host) % SHARES
        if number not in self._shares:
            share: Any = pycurl.CurlShare()
            share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_SSL_SESSION)
            self._shares[number] = share
        return self._shares[number]

    def close(self) -> None:
        for share in self._shares.values():
            share.close()
        self._shares.clear()
        if self._bundle is not None:
            self._bundle.unlink(missing_ok=True)
            self._bundle = None

    def _trust(self, config: Config, *, is_verified: bool) -> Iterator[tuple[int, Any]]:
        for option in (pycurl.SSL_VERIFYPEER, pycurl.PROXY_SSL_VERIFYPEER):
            yield option, int(is_verified)
        for option in (pycurl.SSL_VERIFYHOST, pycurl.PROXY_SSL_VERIFYHOST):
            yield option, 2 if is_verified else 0
        if not is_verified:
            return
        usual = _usual_bundle()
        if config.ca_file:
            usual = self._with_own(usual, config.ca_file)
        if usual is None:
            yield pycurl.SSL_OPTIONS, pycurl.SSLOPT_NATIVE_CA
        for option in (pycurl.CAINFO, pycurl.PROXY_CAINFO):
            if usual is not None:
                yield option, str(usual)

    def _with_own(self, usual: Path | None, own: str) -> Path:
        """The usual certificates and the user's, in one file of ours."""
        texts = [path.read_bytes() for path in (usual, Path(own)) if path is not None]
        with tempfile.NamedTemporaryFile(prefix="trusted-", suffix=".pem", delete=False) as file:
            file.write(b"\n".join(texts))
        self._bundle = Path(file.name)
        return self._bundle


def _usual_bundle() -> Path | None:
    """The file of what this system trusts; SSL_CERT_FILE counts, as for all of OpenSSL."""
    given = ssl.get_default_verify_paths().cafile
    if sys.platform == "win32":
        return Path(given) if given else None
    found = [path for path in (given, *BUNDLES) if path and Path(path).is_file()]
    return Path(found[0]) if found else None


def _client_files(given: Mapping[str, Any] | None) -> dict[str, tuple[str, str]]:
    """Certificate and key by host; a single file holds both."""
    return {
        host.lower(): (files, files) if isinstance(files, str) else (str(files[0]), str(files[1]))
        for host, files in (given or {}).items()
    }


def _versions(settings: BaseSettings) -> int:
    chosen: int = pycurl.SSLVERSION_DEFAULT
    for name, known in (
        ("DOWNLOAD_TLS_MIN_VERSION", _LOWEST),
        ("DOWNLOAD_TLS_MAX_VERSION", _HIGHEST),
    ):
        wanted = settings[name]
        if wanted is not None and wanted not in known:
            raise ConfigError(f"{name}={wanted}: give one of {', '.join(known)}")
        chosen |= known.get(wanted, 0)
    return chosen


def _ciphers(settings: BaseSettings) -> Options:
    wanted = settings["DOWNLOADER_CLIENT_TLS_CIPHERS"]
    # libcurl's own choice is that of OpenSSL.
    return [(pycurl.SSL_CIPHER_LIST, wanted)] if wanted and wanted != "DEFAULT" else []
