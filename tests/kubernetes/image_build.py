"""Build the image of the service from the Dockerfile, with the container engine of this machine.

::

    make image                                     localhost/skybridge:dev, from the checkout
    make image ARGS="--commit HEAD~20 --tag old"   localhost/skybridge:old, from a commit
    make image ARGS="--save image.tar"             the same as a file, for a cluster without a registry

Docker builds it where its daemon answers, else buildah. Without access to the registry of the base
images, buildah uses stand-ins under the same names: Debian from its mirror, with Debian's Python.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import base_images
from versions import CHECKOUT

from checkout import git
from kafka_install import Missing

REPOSITORY = "localhost/skybridge"
_LABEL = "org.opencontainers.image.revision"
_CURE = "Cure: start Docker, or on Debian as root: apt-get install buildah"


class Broken(Exception):
    """The image does not build. The text has the end of the engine's output."""


def engine() -> str:
    """Return ``docker`` or ``buildah``, whichever works here. Raises Missing if none does."""
    docker = shutil.which("docker")
    if (
        docker
        and subprocess.run([docker, "info"], capture_output=True, check=False).returncode == 0
    ):
        return "docker"
    if shutil.which("buildah"):
        return "buildah"
    raise Missing(f"No container engine works on this machine. {_CURE}")


def build(tag: str, commit: str = "") -> str:
    """Build the image and return its name.

    Args:
        tag: The tag of the image.
        commit: The commit to build. Empty: the files of the checkout as they are.
    """
    name, program = f"{REPOSITORY}:{tag}", engine()
    revision = git("rev-parse", "--short", commit or "HEAD").strip()
    with _sources(commit) as folder:
        words = ["--build-arg", f"REVISION={revision}", "--tag", name, str(folder)]
        if program == "docker":
            _run("docker", "build", *words)
        else:
            _build_with_buildah(folder, words)
    return name


def save(name: str, file: Path) -> None:
    """Write an image to a file in the format of ``docker save``."""
    file.unlink(missing_ok=True)
    if engine() == "docker":
        _run("docker", "save", "--output", str(file), name)
    else:
        _run("buildah", "push", "--quiet", name, f"docker-archive:{file}:{name}")


def revision(name: str) -> str:
    """Return the commit from which an image was built, or "" if this machine does not have the image."""
    label = f'"{_LABEL}"'
    commands = {
        "docker": ["inspect", "--format", f"{{{{index .Config.Labels {label}}}}}", name],
        "buildah": ["inspect", "--type", "image", "--format", f"{{{{index .OCIv1.Config.Labels {label}}}}}", name],
    }  # fmt: skip
    program = engine()
    done = subprocess.run(
        [program, *commands[program]], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _build_with_buildah(folder: Path, words: Sequence[str]) -> None:
    """Build with buildah in a chroot, which needs no further rights of the kernel."""
    pull = base_images.ensure(folder / "Dockerfile", lambda *each: _run("buildah", *each))
    isolation = ("--isolation", "chroot", "--network", "host", "--layers", "--format", "docker")
    _run("buildah", "build", *isolation, f"--pull={pull}", *words)


@contextmanager
def _sources(commit: str) -> Iterator[Path]:
    """Yield the folder to build from: the checkout, or the files of a commit."""
    if not commit:
        yield CHECKOUT
        return
    with tempfile.TemporaryDirectory(prefix="skybridge-commit-") as folder:
        archive = Path(folder) / "commit.tar"
        git("archive", "--output", str(archive), commit)
        shutil.unpack_archive(archive, folder, filter="data")
        archive.unlink()
        yield Path(folder)


def _run(*words: str) -> None:
    """Run a command at low priority and show its output. Raises Broken if it fails."""
    done = subprocess.run(["nice", "-n", "5", *words], check=False)
    if done.returncode:
        raise Broken(f"{' '.join(words[:2])} ended with {done.returncode}; its output is above")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="image", description="Build the image of the service.")
    parser.add_argument("--tag", default="dev", help="tag of the image (default: dev)")
    parser.add_argument("--commit", default="", help="commit to build; default: the checkout")
    parser.add_argument("--save", type=Path, help="also write the image to this file")
    asked = parser.parse_args(words)
    try:
        name = build(asked.tag, asked.commit)
        if asked.save:
            save(name, asked.save)
    except (Missing, Broken) as why:
        print(f"The image was not built. {why}", file=sys.stderr)
        return 1
    print(f"Built {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
