"""What changes while an installation runs: its configuration, a secret, its broker, its size."""

from __future__ import annotations

from collections.abc import Iterator

import settings
from metrics_api import metrics_api
from node_servers import NodeServers
from place import Site, Space
from release import Values, merged, restarts, uid
from scenarios import RATES, SINGLE, SPLIT, SPOOL, Installed, installed, released, scenario
from traffic import Row, load

from helm_install import definition
from waiting import wait_until

_OF_SPOOLS = "with spools, order holds within one gateway"
_RELOADED = 180.0  # seconds: the kubelet writes a changed ConfigMap within a minute or so
_FILE = "/etc/skybridge-secrets/hook/secret"


def _reloaded(site: Site, topology: str) -> Iterator[Row]:
    """Change the ConfigMap, which the pods reload, and check that no pod was replaced."""

    def kept(_: Space, values: Values) -> Values:
        return merged(values, {"restartOnConfigChange": False})

    with installed(site, topology, kept) as it:
        before, pods = _digests(it), {(uid(pod), restarts(pod)) for pod in it.release.pods()}
        it.release.upgrade({"config": {"log": {"level": "warning"}}})
        wait_until(lambda: not before & _digests(it), "all pods reloaded", _RELOADED, turn=1)
        assert pods == {(uid(pod), restarts(pod)) for pod in it.release.pods()}, (
            "a pod was replaced"
        )
    yield it.load.row("configuration reloaded from the ConfigMap", topology, may_refuse=False)


def _digests(it: Installed) -> set[str]:
    """Return the digests of the configurations in force in all pods."""
    ask = (
        "import json, os, urllib.request as u; "
        "r = u.Request('http://127.0.0.1:8081/v1/config', headers={'authorization': 'Bearer ' + os.environ['SKYBRIDGE_ADMIN_TOKEN']}); "
        "print(json.load(u.urlopen(r, timeout=10))['digest'])"
    )
    return {
        it.space.kubectl(
            "exec", pod["metadata"]["name"], "-c", "skybridge", "--", "python", "-c", ask
        )
        for pod in it.release.pods()
    }


@scenario()
def single_reloaded(site: Site) -> Iterator[Row]:
    yield from _reloaded(site, SINGLE)


@scenario()
def split_reloaded(site: Site) -> Iterator[Row]:
    yield from _reloaded(site, SPLIT)


def _rotated(site: Site, topology: str) -> Iterator[Row]:
    """Change the Secret that signs deliveries, and wait until the new one signs."""

    def signed(space: Space, values: Values) -> Values:
        space.site.cluster.apply(_hook_secret(space, settings.SECRET))
        return settings.signed(values, _FILE)

    with released(site, topology, signed) as (space, release):
        secrets = (settings.SECRET, settings.NEXT_SECRET)
        with load(space, release.url, RATES[topology], secrets) as running:
            site.cluster.apply(_hook_secret(space, settings.NEXT_SECRET))
            wait_until(
                lambda: running.progress()["signed"].get(settings.NEXT_SECRET), "the new secret signs",
                _RELOADED, turn=1,
            )  # fmt: skip
    assert "none" not in running.report["signed"], running.report["signed"]
    yield running.row("secret of the signatures rotated", topology, may_refuse=False)


def _hook_secret(space: Space, value: str) -> Values:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": space.name, "name": "shop-hook"},
        "stringData": {"secret": value},
    }


@scenario()
def single_rotated(site: Site) -> Iterator[Row]:
    yield from _rotated(site, SINGLE)


@scenario()
def split_rotated(site: Site) -> Iterator[Row]:
    yield from _rotated(site, SPLIT)


@scenario(own=True)
def spool_without_kafka(site: Site) -> Iterator[Row]:
    """End Kafka, delete a gateway meanwhile, and start Kafka again."""
    with installed(site, SPOOL) as it:
        assert isinstance(site.servers, NodeServers)
        kafka = site.servers.kafka
        kafka.kill()
        try:
            _wait_accepted(it, 600)
            it.space.kubectl("delete", "pod", f"{it.release.full}-gateway-0", "--wait=false")
            _wait_accepted(it, 600)
        finally:
            kafka.start()
    row = it.load.row("Kafka away, and a gateway deleted meanwhile", SPOOL, _OF_SPOOLS)
    yield row._replace(may_reorder=True)


def _wait_accepted(it: Installed, more: int) -> None:
    """Wait until so many more events are accepted; none can be delivered meanwhile."""
    begun = it.load.progress()["accepted"]
    wait_until(
        lambda: it.load.progress()["accepted"] > begun + more, "accepted events", 180, turn=0.25
    )


@scenario(own=True)
def split_keda(site: Site) -> Iterator[Row]:
    """Turn on scaling by lag. The ScaledObject is accepted by its definition; no operator acts."""
    text = definition("ScaledObject").read_text()
    site.cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=text)
    site.cluster.kubectl(
        "wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=60s"
    )
    keda = {
        "enabled": True,
        "initialReplicas": 2,
        "prometheus": "http://prometheus.monitoring:9090",
    }
    with installed(site, SPLIT) as it:
        it.release.upgrade({"worker": {"keda": keda}})
        (scaled,) = it.space.get("scaledobjects.keda.sh")
        assert scaled["spec"]["scaleTargetRef"]["name"] == f"{it.release.full}-worker"
        left = len(it.release.pods("worker"))
    yield it.load.row(
        "scaling by KEDA turned on", SPLIT, f"workers 2 → {left} until the operator acts"
    )


@scenario(own=True)
def split_autoscaled(site: Site) -> Iterator[Row]:
    """Turn on scaling by CPU, and raise the load until there are more gateways."""
    assert site.lab is not None
    few = {"replicas": 1, "resources": {"requests": {"cpu": "10m"}}}
    scaling = {
        "enabled": True,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPU": 50,
        "initialReplicas": 1,
    }
    with (
        metrics_api(site.lab, site.cluster),
        installed(site, SPLIT, lambda _, values: merged(values, {"gateway": few})) as it,
    ):
        it.release.upgrade({"gateway": {"autoscaling": scaling}})
        it.release.wait_ready(3, "gateway")
    yield it.load.row("scaling by CPU: gateways 1 → 3", SPLIT)
