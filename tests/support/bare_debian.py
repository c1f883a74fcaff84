"""Folders that hold a Debian with Python and nothing else, and programs that run in them as in a container.

A root file system of a container engine without the engine: debootstrap makes it, ``unshare`` gives a program its
own process numbers, mounts and network, ``chroot`` its root. Needs root and debootstrap (Debian: apt install
debootstrap). The first is fetched once into .servers, a minute or more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_install import SERVERS, Missing

RELEASE = "bookworm"  # of the image
PACKAGES = "python3,python3-pip,ca-certificates"
MIRROR = "http://deb.debian.org/debian"
HOME = SERVERS / f"debian-{RELEASE}"
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf")
CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT")
"""How this machine reaches the package index: files, and variables that name files."""


def fetched() -> Path:
    """The folder that others are copies of."""
    lacking = [
        name for name in ("debootstrap", "unshare", "nsenter", "ip") if not shutil.which(name)
    ]
    if os.geteuid() or lacking:
        why = f"without {', '.join(lacking)}" if lacking else "by a user who is not root"
        raise Missing(f"a bare Debian cannot be made {why}. Cure: as root, apt install debootstrap")
    if not HOME.exists():
        making = HOME.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE]
        done = subprocess.run([*command, making, MIRROR], capture_output=True, check=False)
        if done.returncode:
            raise Missing(f"debootstrap failed:\n{done.stdout.decode()[-1000:]}")
        making.rename(HOME)
    return HOME


def laid(place: Path) -> Path:
    """One more of them."""
    subprocess.run(["cp", "--archive", fetched(), place], check=True)
    return place


def let_fetch(root: Path) -> dict[str, str]:
    """Programs in it may reach the package index, with these variables."""
    named = {name: os.environ[name] for name in CERTIFICATES if name in os.environ}
    for file in map(Path, {*NETWORK, *named.values()}):
        if file.exists():
            target = root / file.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return named


def ran(root: Path, command: str, environ: Mapping[str, str], folder: str) -> None:
    """A line of shell as root, with the network of this machine; nothing is left mounted."""
    script = f'mount --bind /dev {root}/dev; mount -t proc proc {root}/proc; exec chroot {root} bash -euo pipefail -c \'cd "$0"; eval "$1"\' "$@"'
    subprocess.run(
        ["unshare", "--mount", "bash", "-euc", script, "bash", folder, command],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **environ},
        check=True,
    )


CONTAINED = """
ip link set lo up
mount --bind {root} {root}; mount -o remount,ro,bind {root}
mount --bind /dev {root}/dev; mount -t proc proc {root}/proc; mount -t tmpfs tmpfs {root}/tmp
mount --bind {state} {root}{volume}
exec chroot --userspec={user} {root} env --chdir={volume} "$@"
"""


def contained(
    root: Path,
    state: Path,
    volume: str,
    user: str,
    environ: Mapping[str, str],
    words: Sequence[str],
) -> subprocess.Popen[bytes]:
    """``words`` as process 1 of its own, on a root that cannot be written, with ``state`` at ``volume``, in a network
    that has loopback alone. The process that is returned waits for it and leaves as it does."""
    script = CONTAINED.format(root=root, state=state, volume=volume, user=user)
    told = [f"{name}={value}" for name, value in environ.items()]
    return subprocess.Popen(
        [
            "unshare",
            "--mount",
            "--pid",
            "--net",
            "--fork",
            "--kill-child",
            "bash",
            "-euc",
            script,
            "bash",
            "-i",
            *told,
            *words,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
