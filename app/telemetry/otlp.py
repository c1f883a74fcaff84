"""The exporter of spans over OTLP/HTTP. The variables of OpenTelemetry name its certificates.

The library requests sends the spans. It gets copies of the last valid certificate files, because it
would ask for the pass phrase of a key at the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from requests.adapters import HTTPAdapter

from app.tls import Copies, PemReloader, Pems

_VARIABLE = "OTEL_EXPORTER_OTLP_{}"
_OF_TRACES = "OTEL_EXPORTER_OTLP_TRACES_{}"


def exporter_of(endpoint: str, headers: Mapping[str, str], timeout: float) -> OTLPSpanExporter:
    """Return the exporter for an endpoint. ``timeout`` is in seconds.

    Raises:
        SetupError: The certificate files cannot be used.
    """
    pems = _pems()
    session = None
    if pems.cert is not None:
        session = requests.Session()
        session.mount("https://", _Adapter(pems))
    return OTLPSpanExporter(endpoint, headers=dict(headers), timeout=timeout, session=session)


def _pems() -> Pems:
    """Return the certificate files as the exporter finds them. Environment variables for traces
    take precedence over general ones."""
    return Pems(
        setting=_VARIABLE.format("CLIENT_CERTIFICATE"),
        cert=_path("CLIENT_CERTIFICATE"),
        key=_path("CLIENT_KEY"),
        ca=_path("CERTIFICATE"),
    )


def _path(name: str) -> Path | None:
    text = os.environ.get(_OF_TRACES.format(name)) or os.environ.get(_VARIABLE.format(name))
    return Path(text) if text else None


class _Adapter(HTTPAdapter):
    """The transport of requests with the last valid client certificate."""

    def __init__(self, pems: Pems) -> None:
        super().__init__()
        self._tried = PemReloader(pems, partial(Copies, pems))

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        self._tried.look()
        copies = self._tried.current  # the copies must exist until the request ends
        cert, key, ca = copies.pems.cert, copies.pems.key, copies.pems.ca
        options["cert"] = str(cert) if key is None else (str(cert), str(key))
        if ca is not None:
            options["verify"] = str(ca)
        return super().send(request, *args, **options)
