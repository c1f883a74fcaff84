"""Find Helm, and fetch the schemas of the custom resources that the chart makes. Repeated calls
fetch nothing.

Helm comes as a wheel, or from PATH where its platform has no wheel. The schemas are files in the Go
modules of the projects that define them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from go_install import module
from kafka_install import SERVERS, Missing, one_at_a_time

CRDS = SERVERS / "crds"

_DEFINED: Mapping[str, tuple[str, str, str]] = {
    "HTTPRoute": (
        "sigs.k8s.io/gateway-api", "v1.6.0",
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    ),
    "PodMonitor": (
        "github.com/prometheus-operator/prometheus-operator", "v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
    ),
    "PrometheusRule": (
        "github.com/prometheus-operator/prometheus-operator", "v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    "ScaledObject": (
        "github.com/kedacore/keda/v2", "v2.21.0", "config/crd/bases/keda.sh_scaledobjects.yaml",
    ),
    "ServiceMonitor": (
        "github.com/prometheus-operator/prometheus-operator", "v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
}  # fmt: skip


def install() -> Path:
    """Return the path of ``helm`` and fetch all schemas. Raises Missing if Helm or a schema cannot
    be had.
    """
    beside = Path(sys.executable).with_name("helm")
    found = str(beside) if beside.is_file() else shutil.which("helm")
    if found is None:
        raise Missing("helm is not on the path (https://helm.sh/docs/intro/install)")
    for kind in _DEFINED:
        definition(kind)
    return Path(found)


def definition(kind: str) -> Path:
    """Return the file of the CustomResourceDefinition of a kind. Raises Missing if it cannot be
    fetched.
    """
    path, version, file = _DEFINED[kind]
    kept = CRDS / f"{kind}-{version}.yaml"
    with one_at_a_time("crds"):
        if not kept.is_file():
            CRDS.mkdir(exist_ok=True)
            fresh = kept.with_suffix(".fetching")
            shutil.copyfile(module(path, version) / file, fresh)
            fresh.chmod(0o644)
            fresh.rename(kept)
    return kept


if __name__ == "__main__":
    print(install())
