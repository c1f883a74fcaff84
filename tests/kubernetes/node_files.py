"""Write the files of a node: the settings of its programs.

All files except containerd's are JSON, which every reader of YAML accepts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DOMAIN = "cluster.local"
SERVICES = "10.99.64.0/20"
API_SERVICE = "10.99.64.1"
POLICIES_TOKEN = "policies-of-the-laboratory"
_CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "/run/containerd-state"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_selinux = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{packages}/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{packages}/usr/sbin/runc"
        SystemdCgroup = false
"""
_COREFILE = """.:53 {{
    errors
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {folder}/kubeconfig
        pods insecure
        ttl 5
    }}
    cache 5
}}
"""


class Place(NamedTuple):
    """Where a node is: its number, its folder, its cgroup, and the folder of its packages."""

    number: int
    folder: Path
    cgroup: str
    packages: Path

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"10.99.0.{self.number}"

    @property
    def pods(self) -> str:
        """Return the network of the pods of this node."""
        return f"10.99.{128 + 16 * (self.number - 1)}.0/20"


def write(place: Place, authority: Path, server: str) -> None:
    """Write all settings of a node into its folder.

    Args:
        place: The node.
        authority: The folder of the certificates.
        server: The address of the API server.
    """
    folder = place.folder
    for name in ("log", "kernel", "cni", "volumes"):
        (folder / name).mkdir()
    _put(folder / "kubeconfig", kubeconfig(authority, server))
    _put(folder / "kubelet.json", _kubelet(place, authority))
    _put(folder / "proxy.json", _proxy(place))
    _put(folder / "cni" / "10-pods.conflist", _pod_network(place))
    (folder / "containerd.toml").write_text(_CONTAINERD.format(**_words(place)))
    (folder / "Corefile").write_text(_COREFILE.format(**_words(place), domain=DOMAIN))
    (folder / "resolv.conf").write_text(f"nameserver {place.address}\n")
    (folder / "tokens.csv").write_text(f"{POLICIES_TOKEN},policies,policies,system:masters\n")


def kubeconfig(authority: Path, server: str) -> Mapping[str, Any]:
    """Return the settings of a client that may do everything."""
    cluster = {"server": server, "certificate-authority": str(authority / "ca.crt")}
    user = {name: str(authority / f"admin.{end}") for name, end in _CLIENT}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    }


_CLIENT = (("client-certificate", "crt"), ("client-key", "key"))


def _kubelet(place: Place, authority: Path) -> Mapping[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup}",
        "enforceNodeAllocatable": ["pods"],
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "address": place.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(authority / "ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": str(authority / f"{place.name}.crt"),
        "tlsPrivateKeyFile": str(authority / f"{place.name}.key"),
        "clusterDNS": ["10.99.0.1"],
        "clusterDomain": DOMAIN,
        "resolvConf": str(place.folder / "resolv.conf"),
        "podLogsDir": "/var/log/pods",
        "oomScoreAdj": 0,
        "protectKernelDefaults": True,
        "failSwapOn": False,
        "maxPods": 60,
        "maxOpenFiles": 20000,
        "syncFrequency": "10s",  # how soon a pod sees a changed ConfigMap or Secret
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "containerLogMaxSize": "500Mi",
    }


def _proxy(place: Place) -> Mapping[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": "10.99.128.0/17",
        "bindAddress": place.address,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "hostnameOverride": place.name,
        "oomScoreAdj": 0,
        "clientConnection": {"kubeconfig": str(place.folder / "kubeconfig")},
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
    }  # fmt: skip


def _pod_network(place: Place) -> Mapping[str, Any]:
    addresses = {"type": "host-local", "ranges": [[{"subnet": place.pods}]]}
    bridge = {"type": "bridge", "bridge": "pods", "isDefaultGateway": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{**bridge, "ipMasq": False, "ipam": addresses}, ports],
    }


def _words(place: Place) -> Mapping[str, str]:
    return {
        "folder": str(place.folder),
        "packages": str(place.packages),
        "address": place.address,
    }


def _put(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))
