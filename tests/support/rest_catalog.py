"""The REST catalog of Iceberg's own tests, as a process on loopback. It issues credentials of its S3 store."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from free_ports import free_ports
from kafka_install import SERVERS, Missing, one_at_a_time
from s3_server import BUCKET, S3Server
from server_process import ServerProcess, answer_to

ICEBERG = "1.11.0"
_JETTY = "12.1.1"
_PLACE = SERVERS / f"rest-catalog-{ICEBERG}"
_JARS = (
    ("org.apache.iceberg", "iceberg-open-api", ICEBERG, "test-fixtures"),
    ("org.apache.iceberg", "iceberg-core", ICEBERG, ""),
    ("org.apache.iceberg", "iceberg-core", ICEBERG, "tests"),
    ("org.apache.iceberg", "iceberg-aws", ICEBERG, ""),
    ("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG, ""),
    ("org.eclipse.jetty.ee10", "jetty-ee10-servlet", _JETTY, ""),
    ("org.eclipse.jetty.compression", "jetty-compression-server", _JETTY, ""),
    ("org.eclipse.jetty.compression", "jetty-compression-gzip", _JETTY, ""),
    ("org.xerial", "sqlite-jdbc", "3.46.1.3", ""),
)
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<classifier>{}</classifier></dependency>"
)
_POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>skybridge</groupId><artifactId>rest-catalog</artifactId><version>1</version>"
    "<dependencies>{}</dependencies></project>"
)


def install() -> str:
    """Return the class path of the catalog, which Maven resolves once. Raise Missing if it cannot."""
    found = _PLACE / "class-path"
    with one_at_a_time("rest-catalog"):
        if not found.is_file():
            _PLACE.mkdir(parents=True, exist_ok=True)
            jars = "".join(_DEPENDENCY.format(*each) for each in _JARS)
            (_PLACE / "pom.xml").write_text(
                _POM.format(jars.replace("<classifier></classifier>", ""))
            )
            command = [
                "mvn",
                "-q",
                "-B",
                "dependency:build-classpath",
                "-Dmdep.outputFile=class-path",
            ]
            try:
                subprocess.run(command, cwd=_PLACE, check=True, capture_output=True, timeout=900)
            except (OSError, subprocess.SubprocessError) as why:
                raise Missing(f"the REST catalog cannot be fetched: {why}") from why
    import pyspark

    hadoop = sorted(Path(pyspark.__file__).parent.glob("jars/hadoop-client-*.jar"))
    return os.pathsep.join([found.read_text(), *map(str, hadoop)])


class RestCatalog(ServerProcess):
    """A REST catalog in a SQLite file, whose tables are on an S3 server."""

    name = "REST"

    def __init__(self, s3: S3Server, *, outlives_us: bool = False) -> None:
        super().__init__(outlives_us=outlives_us)
        self._s3 = s3
        (self.port,) = free_ports(1)

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"http://127.0.0.1:{ports['port']}"

    @property
    def uri(self) -> str:
        return self.addresses(self.ports)

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        return b" 200 " in answer_to(ports["port"], b"GET /v1/config HTTP/1.0\r\n\r\n")[:20]

    def begin(self) -> None:
        properties = {
            "rest.port": str(self.port),
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{self.folder}/catalog.db",
            "warehouse": f"s3://{BUCKET}/rest",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": self._s3.properties["s3.region"],
            "include-credentials": "true",
            **self._s3.properties,
        }
        environment = {
            f"CATALOG_{name.replace('-', '__').replace('.', '_').upper()}": value
            for name, value in properties.items()
        }
        self._process = self._spawn(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", install(),
             "org.apache.iceberg.rest.RESTCatalogServer"],
            env={**os.environ, **environment},
        )  # fmt: skip
