"""The limits and the TLS settings of listeners, from the configuration."""

from __future__ import annotations

from typing import Any

from app.config.model.config import Config, ServerTls
from app.features.descriptors import current_shares
from app.gateway.limits import ListenerLimits
from app.gateway.listener import Listener
from app.gateway.server import HttpServer
from app.gateway.tls import Tls


def limits_of(config: Config, *, admin: bool = False) -> ListenerLimits:
    """Return the limits of the events listener. With ``admin``, return those of the admin listener, which may
    have another number of connections."""
    allowed = current_shares(config)
    return ListenerLimits(
        header_bytes=config.limits.header_bytes,
        header_fields=config.limits.header_fields,
        body=config.limits.body,
        receiving=config.limits.receiving,
        connections=allowed.admin if admin else allowed.events,
        batch_events=config.limits.max_batch,
        in_work=config.limits.requests_per_connection,
        keep_alive_requests=config.limits.keep_alive_requests,
        in_flight=config.limits.requests_in_flight,
        head_timeout=config.timeouts.request_head,
        body_timeout=config.timeouts.request_body,
        keep_alive=config.timeouts.keep_alive,
    )


def admin_server(config: Config, app: Any, listener: Listener | None = None) -> HttpServer:
    """Return the server of the admin listener for an ASGI application. Without ``listener``, its limits are those of
    the configuration."""
    admin = config.server.admin
    return HttpServer(
        app,
        host=admin.host,
        port=admin.port,
        listener=listener or Listener(limits_of(config, admin=True)),
        tls=tls_of(admin.tls),
        settings="server.admin.{}",
    )


def tls_of(tls: ServerTls | None, *, asks: bool = False) -> Tls | None:
    """Return the TLS settings of a listener. With ``asks``, the listener requests a client certificate but
    does not require it."""
    if tls is None:
        return None
    return Tls(certificate=tls.cert, key=tls.key, client_ca=tls.client_ca, demands_client=not asks)
