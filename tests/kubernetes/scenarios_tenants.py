"""Attacks of one namespace on another, by objects of kind Subscription, while deliveries go on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import objects
from place import Site, Space
from release import Release, name
from scenarios import RATES, SINGLE, released, scenario
from team_objects import (
    KINDS,
    declared,
    hook,
    secret,
    subscription,
    wait_ready,
    wait_refused,
)
from traffic import Row, load

from app.kubernetes.names import subscription_id

_VALUES = {
    "foreign": "whsec_Zm9yZWlnbi1zZWNyZXQtb2YtYW5vdGhlci1uYW1lc3BhY2U=",
    "unlabelled": "whsec_dW5sYWJlbGxlZC1zZWNyZXQtb2YtdGhpcy1uYW1lc3BhY2U=",
    "own": "whsec_b3duLXNlY3JldC10aGF0LXNpZ25zLXRoZS1kZWxpdmVyaWVz",
}
_ADMIN = "token-of-the-laboratory"
_ASK = """
import json, os, sys, urllib.error, urllib.request as u
r = u.Request('http://127.0.0.1:8081' + sys.argv[1], headers={'authorization': 'Bearer ' + os.environ['SKYBRIDGE_ADMIN_TOKEN']})
try:
    print(u.urlopen(r, timeout=10).read().decode())
except u.HTTPError as error:
    print(error.code)
"""


@scenario()
def operator_tenants(site: Site) -> Iterator[Row]:
    """Try what a tenant must not: the secret, topic, address and id of others. No attack becomes a subscription."""
    with site.space() as victim:
        listed = {"name": victim.name, "topics": ["of-the-victim"], "hosts": ["*.example.com"]}
        with released(site, SINGLE, lambda space, own: _with(space, own, listed)) as (
            space,
            release,
        ):
            _add_secrets(space, victim)
            site.cluster.apply(_signed(space, "hook", "own"))
            wait_ready(space, "hook")
            with load(space, release.url, RATES[SINGLE], (_VALUES["own"],)) as running:
                refused = [
                    _attacked(space, release, *each) for each in _attacks(space, victim).items()
                ]
                _check_rights(space, release, victim)
                _check_hidden(space, victim, release)
        assert set(running.report["signed"]) == {_VALUES["own"]}, running.report["signed"]
        yield running.row(f"{len(refused)} attacks of a tenant refused", SINGLE)


def _with(space: Space, values: Mapping[str, Any], listed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values with both namespaces, and with a subscription of the configuration whose id an attack takes."""
    made = dict(declared(space, values, listed))
    taken = {
        "id": subscription_id(space.name, "taken"),
        "source": {"broker": "log", "topics": [space.name]},
        "sink": "https://never.example.com/",
        "paused": True,
    }
    made["config"] = {**made["config"], "subscriptions": [taken]}
    return made


def _add_secrets(space: Space, victim: Space) -> None:
    space.site.cluster.apply(
        secret(victim.name, "foreign", _VALUES["foreign"]),
        secret(space.name, "unlabelled", _VALUES["unlabelled"], labelled=False),
        secret(space.name, "own", _VALUES["own"]),
        _elsewhere(space, victim),
    )


def _elsewhere(space: Space, victim: Space) -> objects.Object:
    """Return a Service of this namespace that leads to one of another."""
    spec = {"type": "ExternalName", "externalName": f"load.{victim.name}.svc.cluster.local"}
    metadata = {"namespace": space.name, "name": "elsewhere"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _signed(space: Space, object_name: str, by: str) -> objects.Object:
    signing = {"secretRef": {"name": by, "key": "secret"}}
    return subscription(space.name, object_name, hook(space.name, "log", signing=signing))


def _attacks(space: Space, victim: Space) -> dict[str, Mapping[str, Any]]:
    """Return the spec of each attack, by the name of its object."""

    def plain(**more: Any) -> Mapping[str, Any]:
        return {**hook(space.name, "log"), **more}

    return {
        "secret-of-another": plain(signing={"secretRef": {"name": "foreign", "key": "secret"}}),
        "secret-without-label": plain(signing={"secretRef": {"name": "unlabelled", "key": "secret"}}),
        "topic-of-another": plain(source={"broker": "log", "topics": ["of-the-victim"]}),
        "topic-written": plain(sink={"broker": "log", "topic": "of-the-victim"}),
        "topic-of-dead-letters": plain(dead_letter={"broker": "log", "topic": "of-the-victim"}),
        "route-not-listed": plain(reply="everything"),
        "host-of-another": plain(sink={"url": "https://hooks.example.com/"}),
        "metadata-of-the-cloud": plain(sink={"url": "http://169.254.169.254/latest/meta-data/"}),
        "admin-listener": plain(sink={"url": "http://127.0.0.1:8081/v1/subscriptions"}),
        "service-of-another": plain(sink={"url": f"http://load.{victim.name}.svc:9000/hook"}),
        "service-elsewhere": plain(sink={"service": {"name": "elsewhere", "port": 9000}}),
        "variable-of-the-process": plain(headers={"x-secret": "${env:SKYBRIDGE_ADMIN_TOKEN}"}),
        "taken": plain(),
    }  # fmt: skip


def _attacked(space: Space, release: Release, object_name: str, spec: Mapping[str, Any]) -> str:
    """Apply an attack. It has to be refused, by the API server or by a condition, and change no subscription.

    Raises:
        AssertionError: The attack became a subscription.
    """
    before = _origin(space, release, object_name)
    try:
        space.site.cluster.apply(subscription(space.name, object_name, spec))
    except RuntimeError as error:
        if "is invalid" not in str(error):
            raise
        return object_name
    found = wait_refused(space, object_name)
    print(f"    {object_name}: {found['reason']}: {found['message']}", flush=True)
    assert found["reason"], found
    assert found["message"], found
    after = _origin(space, release, object_name)
    assert after == before == ("file" if object_name == "taken" else ""), (before, after)
    return object_name


def _origin(space: Space, release: Release, object_name: str) -> str:
    """Return where the subscription of an object was declared, as the admin API says it, or ""."""
    wanted = subscription_id(space.name, object_name)
    listed = json.loads(_asked(space, release, "/v1/subscriptions"))
    return next((str(each["origin"]) for each in listed if each["id"] == wanted), "")


def _asked(space: Space, release: Release, path: str) -> str:
    """Return the answer of the admin API of the single pod, or its status."""
    (pod,) = release.pods()
    command = ("exec", name(pod), "-c", "skybridge", "--", "python", "-c", _ASK, path)
    return space.kubectl(*command).strip()


def _check_rights(space: Space, release: Release, victim: Space) -> None:
    """Check that the operator may read Secrets in the listed namespaces, and in no other one."""
    account = f"--as=system:serviceaccount:{space.name}:{release.full}-operator"

    def may(*words: str) -> bool:
        try:
            return space.site.cluster.kubectl("auth", "can-i", *words, account).strip() == "yes"
        except RuntimeError:  # kubectl ends with 1 after "no"
            return False

    assert may("list", "secrets", "-n", victim.name)
    assert not may("list", "secrets", "-n", "kube-system")
    assert not may("list", "secrets", "--all-namespaces")
    assert not may("create", "secrets", "-n", victim.name)
    assert not may("delete", KINDS, "-n", victim.name)
    assert not may("get", "pods", "-n", victim.name)


def _check_hidden(space: Space, victim: Space, release: Release) -> None:
    """Check that no value of a Secret is in an object, an Event, a log, or an answer of the admin API."""
    seen = [_asked(space, release, "/v1/subscriptions")]
    for each in (space, victim):
        seen += [each.kubectl("get", f"{KINDS},events,configmaps", "--output", "yaml")]
    for pod in [*release.pods(), *release.pods("operator")]:
        seen.append(space.kubectl("logs", name(pod), "--all-containers"))
    for value in (*_VALUES.values(), _ADMIN):
        assert not [text for text in seen if value in text or value.removeprefix("whsec_") in text]
