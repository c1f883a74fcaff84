"""The commands that `make servers` prints. A person pastes them as they are, and Skybridge runs on the servers.

They have no comments, because zsh runs a pasted comment as a command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from postgres_server import PostgresServer
from pulsar_server import urls

Ports = Mapping[str, int]
FILE = "servers.yaml"
ABOUT = f"Paste the following into a shell. It writes {FILE}, a whole configuration, and starts Skybridge on it.\n"
_TEXT = """\
cat > {file} <<'END'
version: 1
brokers:
{brokers}
{store}routes:
  - {{name: everything, to: {{broker: {first}, topic: events}}, key: {{mapper: partitionkey}}}}
webhooks: {{allow_private: ["127.0.0.0/8"]}}
END
.venv/bin/skybridge serve --config {file}
"""


def paste(running: Mapping[str, Ports | None]) -> str:
    """Return the commands for the servers that run, or empty text if none runs.

    Args:
        running: The ports of each server by its name, or None if it does not run.
    """
    ports = {name: each for name, each in running.items() if each is not None}
    if not ports:
        return ""
    store = ""
    if (own := ports.pop("postgresql", None)) is not None:
        store = f'store: {{kind: postgresql, dsn: "{PostgresServer.addresses(own)}"}}\n'
    brokers = dict(_brokers(ports)) or {"log": "{kind: embedded, path: ./skybridge-data/log}"}
    lines = "\n".join(f"  {name}: {settings}" for name, settings in brokers.items())
    return _TEXT.format(file=FILE, brokers=lines, store=store, first=next(iter(brokers)))


def _brokers(running: Mapping[str, Ports]) -> Iterator[tuple[str, str]]:
    """Yield the name and the settings of each broker."""
    for name, ports in running.items():
        address = f"127.0.0.1:{ports['port']}"
        match name:
            case "kafka":
                settings = f'bootstrap_servers: "{address}"'
            case "rabbitmq":
                settings = f'addresses: "{address}"'
            case _:
                service, admin = urls(ports)
                settings = f'service_url: "{service}", admin_url: "{admin}"'
        yield name, f"{{kind: {name}, {settings}, topics: {{create: true}}}}"
