"""Each example of the chart: installed, tested, upgraded, rolled back, uninstalled, and back.

What an example names outside of the cluster is replaced: the image, Kafka with its login, and the
targets of subscriptions. Everything else stays as the example has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import objects
import settings
import yaml
from place import Site, Space
from release import CHART, Release, Values, merged
from scenarios import ENTRIES, RATES, SINGLE, Entry
from scenarios_backups import back_up
from traffic import Row, load

from helm_install import definition

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
_KEY = "key-of-the-laboratory-0123456789"
_CHANGE: Values = {"config": {"timeouts": {"drain": "20s"}}}
_OUTSIDE: Values = {
    "imagePullSecrets": [],
    "single": {"resources": settings.SMALL},
    "gateway": {"resources": settings.SMALL},
    "worker": {"resources": settings.SMALL},
    "networkPolicy": {"eventsFrom": [], "egress": []},
}


def adapted(values: Values, space: str, image: str, pull: str) -> Values:
    """Return the values of an example with replacements for what the laboratory does not have."""
    config = dict(values["config"])
    split = values.get("topology") == "split"
    (log,) = config["brokers"]
    if split:
        topics = {**config["brokers"][log].get("topics", {}), "create": True, "replication": 1}
        kafka = {"kind": "kafka", "bootstrap_servers": "kafka:9092", "topics": topics}
        config["brokers"] = {log: kafka}
    config["installation"] = space
    config["routes"] = [_to(each, space) for each in config["routes"]]
    config["subscriptions"] = [_from(each, space) for each in config["subscriptions"]]
    config["webhooks"] = settings.WEBHOOKS
    own = {"image": {**settings.image_values(image, pull), "digest": ""}}
    return {**merged(merged(values, _OUTSIDE), own), "config": config}


def _to(route: Mapping[str, Any], topic: str) -> Values:
    return {**route, "to": {**route["to"], "topic": topic}}


def _from(subscription: Mapping[str, Any], space: str) -> Values:
    kept = {key: value for key, value in subscription.items() if key != "tls"}
    source = {**subscription["source"], "topics": [space]}
    return {**kept, "source": source, "start": "earliest", "sink": settings.hook(space)}


def _add_secrets(space: Space, values: Values) -> None:
    """Make the Secrets and the ConfigMap that an example names."""
    dsn = space.dsn()
    every = {"dsn": dsn, "password": "unused", "ca.crt": "unused", "till": _KEY, "key": _KEY}
    names = {each["existingSecret"] for each in values.get("secretFiles", [])}
    admin = {"token": "token-of-the-laboratory", "metrics": "token-of-the-metrics"}
    authorities = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": space.name, "name": "corp-ca"},
        "data": {"ca.crt": "unused"},
    }
    space.site.cluster.apply(
        objects.secret(space.name, "skybridge-admin", **admin),
        *(objects.secret(space.name, name, **every) for name in names),
        authorities,
    )


def _add_definitions(site: Site, values: Values) -> None:
    """Make the definitions of the resources that the values turn on."""
    for value, kind in (("serviceMonitor", "ServiceMonitor"), ("prometheusRule", "PrometheusRule")):
        if values.get(value, {}).get("enabled"):
            text = definition(kind).read_text()
            site.cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=text)


def _example(site: Site, file: Path) -> Iterator[Row]:
    values = yaml.safe_load(file.read_text())
    topology = values.get("topology", SINGLE)
    with site.space(volumes=3) as space:
        space.add_servers()
        _add_secrets(space, values)
        _add_definitions(site, values)
        release = Release(space, adapted(values, space.name, site.image, site.pull))
        try:
            release.install()
            with load(space, release.url, RATES[topology], key=_KEY) as running:
                release.test()
                release.upgrade(_CHANGE)
                release.rollback()
                if values.get("backup", {}).get("enabled"):
                    back_up(space, release)
            what = f"example `{file.name}`: "
            yield running.row(f"{what}`helm test`, upgrade, rollback", topology)
            with load(space, release.url, RATES[topology], key=_KEY) as running:
                release.uninstall()
                release.install()
            note = "no pods for a while"
            yield running.row(f"{what}uninstalled, and back", topology, note, may_refuse=True)
        except BaseException:
            print(space.describe())
            raise
        release.uninstall()


def _scenario(file: Path) -> Entry:
    return Entry(f"example-{file.stem}", lambda site: _example(site, file), short=False, own=False)


ENTRIES.extend(map(_scenario, EXAMPLES))
