"""Folders that have a Debian with Python and nothing more, in which programs run as in a
container.

debootstrap makes the root file system. ``unshare`` gives a program its own process numbers, mounts
and network; ``chroot`` changes its root. Both need root rights and debootstrap (Debian: apt install
debootstrap). The first folder is fetched once into .servers, which takes a minute or more.
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
"""The environment variables that name certificate files needed to reach the package index."""


def pristine_debian() -> Path:
    """Return the folder of the pristine Debian, made by debootstrap if necessary. Raises Missing
    if that fails.
    """
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


def copy_to(place: Path) -> Path:
    """Copy the pristine Debian to ``place`` and return that path."""
    subprocess.run(["cp", "--archive", pristine_debian(), place], check=True)
    return place


def allow_downloads(root: Path) -> dict[str, str]:
    """Copy the network settings of this machine into a root, and return the environment variables
    that go with them.

    Programs in this root can then reach the package index.
    """
    named = {name: os.environ[name] for name in CERTIFICATES if name in os.environ}
    for file in map(Path, {*NETWORK, *named.values()}):
        if file.exists():
            target = root / file.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return named


def run_in(root: Path, command: str, environ: Mapping[str, str], folder: str) -> None:
    """Run a line of shell as root in the file system ``root``, with the network of this machine.

    The mounts end with the command. Raises CalledProcessError if the command fails.
    """
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


def start_contained(
    root: Path,
    state: Path,
    volume: str,
    user: str,
    environ: Mapping[str, str],
    words: Sequence[str],
) -> subprocess.Popen[bytes]:
    """Start a command as in a container and return the process that waits for it and has its exit
    code.

    The command is process 1 of its own namespace, its root is read-only, and its network has
    loopback only.

    Args:
        root: The root file system.
        state: The folder of this machine that is mounted at ``volume``.
        volume: The path inside the root at which the command starts and may write.
        user: User and group of the command, as ``chroot --userspec`` takes them.
        environ: The environment variables of the command.
        words: The command and its arguments.
    """
    script = CONTAINED.format(root=root, state=state, volume=volume, user=user)
    assignments = [f"{name}={value}" for name, value in environ.items()]
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
            *assignments,
            *words,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
