"""Name the programs of a node, and write the lines that start them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from node_files import DOMAIN, POLICIES_TOKEN, SERVICES, Place

Command = tuple[str, Sequence[str]]
"""The name of a program, for its log, and its words."""

_ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"


def programs(
    place: Place, built: Mapping[str, Path], authority: Path, networks: Sequence[str]
) -> str:
    """Return the lines that start all programs of a node, the first of which has the control plane.

    Args:
        place: The node.
        built: The paths of the programs by name.
        authority: The folder of the certificates.
        networks: The networks of the pods of all nodes.
    """
    node = str(built["node"])
    queue = Path(__file__).with_name("node_network.sh")
    first = place.number == 1
    started = [
        *(_control_plane(place, node, authority) if first else ()),
        ("containerd", ["containerd", "--config", f"{place.folder}/containerd.toml"]),
    ]
    later = [
        ("kubelet", [node, "kubelet", *_kubelet_flags(place)]),
        ("proxy", [node, "kube-proxy", f"--config={place.folder}/proxy.json"]),
        _policies(place, str(built["policies"])),
        *([("dns", [str(built["coredns"]), "-conf", f"{place.folder}/Corefile"])] if first else ()),
    ]
    return "\n".join([
        *map(_started, started),
        "until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done",
        f"ctr --namespace k8s.io images import {shlex.quote(f'{place.folder}/pause.image')} >import.log 2>&1",
        f"mkdir -p {_ACCOUNT}; cp {authority}/ca.crt {_ACCOUNT}/; printf {POLICIES_TOKEN} >{_ACCOUNT}/token",
        f"bash {queue} {' '.join(networks)} >queue.log 2>&1",
        *map(_started, later),
        "",
    ])  # fmt: skip


def _kubelet_flags(place: Place) -> Sequence[str]:
    return [
        f"--config={place.folder}/kubelet.json",
        f"--kubeconfig={place.folder}/kubeconfig",
        f"--root-dir={place.folder}/kubelet",
        f"--hostname-override={place.name}",
        f"--node-ip={place.address}",
    ]


def _policies(place: Place, program: str) -> Command:
    """Return the program that enforces network policies.

    It knows only the settings that a pod finds: a token in a file, and two variables.
    """
    environ = ("env", "KUBERNETES_SERVICE_HOST=10.99.0.1", "KUBERNETES_SERVICE_PORT=6443")
    flags = (
        f"--hostname-override={place.name}", "--disable-nri", "--nfqueue-id=98",
        "--metrics-bind-address=127.0.0.1:9080", "--netfilter-bug-1766-fix=false",
    )  # fmt: skip
    return "policies", [*environ, program, *flags]


def _control_plane(place: Place, node: str, authority: Path) -> Sequence[Command]:
    """Return the programs of the control plane, each with its command."""
    config = f"--kubeconfig={place.folder}/kubeconfig"
    peers, clients = "http://127.0.0.1:2380", "http://127.0.0.1:2379"
    etcd = [
        node, "etcd", "--name=one", f"--data-dir={place.folder}/etcd", "--unsafe-no-fsync",
        f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=one={peers}",
    ]  # fmt: skip
    controllers = [
        node, "kube-controller-manager", config, "--leader-elect=false",
        f"--service-account-private-key-file={authority}/accounts.key",
        f"--root-ca-file={authority}/ca.crt", "--use-service-account-credentials=false",
        "--horizontal-pod-autoscaler-sync-period=5s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=20s",
        "--horizontal-pod-autoscaler-initial-readiness-delay=5s",
    ]  # fmt: skip
    return [
        ("etcd", etcd),
        ("apiserver", _api_server(place, node, authority)),
        ("controllers", controllers),
        ("scheduler", [node, "kube-scheduler", config, "--leader-elect=false"]),
    ]


def _api_server(place: Place, node: str, authority: Path) -> Sequence[str]:
    return [
        node, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
        f"--bind-address={place.address}", f"--advertise-address={place.address}", "--secure-port=6443",
        f"--service-cluster-ip-range={SERVICES}", "--authorization-mode=Node,RBAC",
        f"--tls-cert-file={authority}/apiserver.crt", f"--tls-private-key-file={authority}/apiserver.key",
        f"--client-ca-file={authority}/ca.crt", f"--token-auth-file={place.folder}/tokens.csv",
        f"--kubelet-client-certificate={authority}/admin.crt",
        f"--kubelet-client-key={authority}/admin.key",
        f"--kubelet-certificate-authority={authority}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",  # else no logs, and no exec
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={authority}/accounts.pub",
        f"--service-account-signing-key-file={authority}/accounts.key",
        # For the metrics API, which another program serves.
        f"--requestheader-client-ca-file={authority}/ca.crt", "--requestheader-allowed-names=aggregator",
        "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={authority}/aggregator.crt",
        f"--proxy-client-key-file={authority}/aggregator.key", "--enable-aggregator-routing=true",
        "--allow-privileged=true",
    ]  # fmt: skip


def _started(command: Command) -> str:
    name, words = command
    return f"{shlex.join(words)} </dev/null >>{name}.log 2>&1 &"
