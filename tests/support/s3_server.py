"""A real S3 server on loopback: versitygw, whose objects are files in a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from free_ports import free_ports
from go_install import go
from kafka_install import SERVERS, one_at_a_time
from server_process import ServerProcess, answer_to

VERSION = "v1.8.0"
PROGRAM = SERVERS / f"versitygw-{VERSION}" / "versitygw"
KEY, SECRET, REGION, BUCKET = "sky", "not-to-be-shown", "us-east-1", "events"


def install() -> Path:
    """Return the path of ``versitygw``, built if necessary. Raise Missing without Go or the module proxy."""
    with one_at_a_time("versitygw"):
        if not PROGRAM.is_file():
            fresh = PROGRAM.parent.with_suffix(".building")
            shutil.rmtree(fresh, ignore_errors=True)
            place = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
            go("install", place, GOBIN=str(fresh))
            fresh.rename(PROGRAM.parent)
    return PROGRAM


class S3Server(ServerProcess):
    """An S3 server with one bucket.

    Attributes:
        bucket: The folder with the objects of the bucket.
    """

    name = "S3"
    usual_port = 7070

    def __init__(self, *, outlives_us: bool = False) -> None:
        super().__init__(outlives_us=outlives_us)
        (self.port,) = free_ports(1)
        self.bucket = self.folder / "data" / BUCKET

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"http://127.0.0.1:{ports['port']}"

    @property
    def endpoint(self) -> str:
        return self.addresses(self.ports)

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties of a catalog whose tables are on this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.path-style-access": "true",
        }

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        return answer_to(ports["port"], b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/")

    def begin(self) -> None:
        program = install()
        self.bucket.mkdir(parents=True, exist_ok=True)
        sidecar = self.folder / "sidecar"  # a file system without extended attributes will do
        sidecar.mkdir(exist_ok=True)
        self._process = self._spawn(
            [str(program), "--port", f"127.0.0.1:{self.port}", "--region", REGION, "--quiet",
             "posix", "--sidecar", str(sidecar), str(self.folder / "data")],
            env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
        )  # fmt: skip
