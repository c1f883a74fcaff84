"""Write container images by hand: one layer with one program, in the format of ``docker save``."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path


def write(target: Path, name: str, program: Path) -> None:
    """Write an image that runs one static program as an unprivileged user."""
    layer = _layer(program)
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/program"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as image:
        for file, content in (
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            _add(image, file, content)


def _layer(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        layer.add(program, arcname="program")
    return buffer.getvalue()


def _add(image: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    image.addfile(entry, io.BytesIO(content))
