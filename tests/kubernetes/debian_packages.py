"""Unpack the Debian packages of a node into the cache folder, without installing them.

containerd would start a service if it were installed. Unpacked, the packages change nothing on the
machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from versions import cache

from kafka_install import Missing, one_at_a_time

PACKAGES = (
    *("runc", "containerd", "containernetworking-plugins", "nftables", "iptables"),
    *("libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libedit2", "libseccomp2"),
    *("libxtables12", "libip4tc2", "libip6tc2", "libnetfilter-conntrack3", "libnfnetlink0"),
)
RELEASE = "bookworm"
_OS = Path("/etc/os-release")


def unpacked() -> Path:
    """Return the folder of the unpacked packages. Raises Missing where they cannot be had."""
    root = cache() / f"debian-{RELEASE}"
    if not root.is_dir():
        _check_machine()
        cache().mkdir(parents=True, exist_ok=True)
        with one_at_a_time("packages", cache()):
            if not root.is_dir():
                _unpack(root)
    return root


def environ(root: Path) -> dict[str, str]:
    """Return the environment in which the unpacked programs find each other and their libraries."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    return {
        "PATH": f"{root}/usr/sbin:{root}/usr/bin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{libraries}:{root}/lib/x86_64-linux-gnu",
        "XTABLES_LIBDIR": f"{libraries}/xtables",
    }


def _check_machine() -> None:
    release = _OS.read_text() if _OS.exists() else ""
    if f"VERSION_CODENAME={RELEASE}" not in release or not shutil.which("apt-get"):
        raise Missing(
            f"The node is made of packages of Debian {RELEASE}, and this machine has another system. "
            'Cure: name a cluster, make kubernetes ARGS="--context NAME"'
        )


def _unpack(root: Path) -> None:
    fresh = root.with_suffix(".unpacking")
    shutil.rmtree(fresh, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="skybridge-packages-") as folder:
        Path(folder).chmod(0o777)  # apt fetches as a user of its own
        if _run(["apt-get", "download", "-qq", *PACKAGES], folder):
            _run(["apt-get", "update", "-qq"], folder)
            if _run(["apt-get", "download", "-qq", *PACKAGES], folder):
                raise Missing(f"apt-get could not download {' '.join(PACKAGES)}")
        for package in sorted(Path(folder).glob("*.deb")):
            if _run(["dpkg-deb", "--extract", str(package), str(fresh)], folder):
                raise Missing(f"dpkg-deb could not extract {package.name}")
    fresh.rename(root)


def _run(command: list[str], folder: str) -> int:
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode
