"""Find out when the certificates of the service expire: those of its listeners, and those with which it logs
in elsewhere.

For a certificate in use, the loaded certificate counts, because the file may since contain one that cannot be
used. For a certificate that this process does not use, the file counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.model.subscription import Subscription
from app.tls import end_in_use, read_regular
from app.tls.faults import certificates_in


class Expiries:
    """The expiry of certificates. A file that has changed is read again, in a thread."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[int, int], float]] = {}

    async def of(self, certificates: Mapping[str, Path]) -> Mapping[str, float]:
        """Return seconds since the epoch at which the first certificate of each file's chain expires, by
        setting. A file without a valid certificate is left out, because the component that uses the file
        reports it."""
        return await asyncio.to_thread(self._of, certificates)

    def _of(self, certificates: Mapping[str, Path]) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for setting, path in certificates.items():
            try:
                in_use = end_in_use(setting.removesuffix(".cert"), path)
                found[setting] = self._end(path) if in_use is None else in_use
            except (OSError, ValueError):
                continue
        return found

    def _end(self, path: Path) -> float:
        stat = path.stat()
        version = stat.st_mtime_ns, stat.st_size
        known = self._read.get(path)
        if known is None or known[0] != version:
            chain = certificates_in(read_regular(path))
            known = version, min(each.not_valid_after_utc.timestamp() for each in chain)
            self._read[path] = known
        return known[1]


def certificates_of(config: Config, subscriptions: Sequence[Subscription]) -> Mapping[str, Path]:
    """Return the certificate files by the setting that names them. Trusted authorities are left out, because
    the operator does not renew them."""
    return {setting: path for setting, path in _named(config, subscriptions) if path is not None}


def _named(
    config: Config, subscriptions: Sequence[Subscription]
) -> Iterator[tuple[str, Path | None]]:
    for listener, tls in (
        ("server.events", config.server.events.tls),
        ("server.admin", config.server.admin.tls),
    ):
        yield f"{listener}.tls.cert", None if tls is None else tls.cert
    for name, broker in config.brokers.items():
        if isinstance(broker, EmbeddedBroker):
            listening = broker.kafka_listener and broker.kafka_listener.tls
            yield f"brokers.{name}.kafka_listener.tls.cert", listening.cert if listening else None
            continue
        client_tls = broker.security.tls
        yield f"brokers.{name}.security.tls.cert", client_tls.cert if client_tls else None
    for each in subscriptions:
        yield f"subscriptions.{each.id}.tls.cert", each.tls.cert if each.tls else None
