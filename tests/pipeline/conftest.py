"""Lakes that several modules use: a small one in a folder, and lakes in an S3 server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from kafka_install import Missing
from report_lake import FilledLake, fill_lake
from server_process import ServerProcess
from skipping import skip_or_fail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from object_store_lake import ObjectStoreLake
    from rest_catalog import RestCatalog
    from s3_server import S3Server

Server = TypeVar("Server", bound=ServerProcess)


@pytest.fixture(scope="session")
def small_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FilledLake:
    return fill_lake(tmp_path_factory.mktemp("small-lake"))


@contextlib.contextmanager
def _running(server: Server) -> Iterator[Server]:
    try:
        server.start()
    except Missing as missing:
        skip_or_fail(missing)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    from s3_server import S3Server

    with _running(S3Server()) as server:
        yield server


@pytest.fixture
def stored_lake(
    kafka: str, s3: S3Server, postgres: str, tmp_path: Path
) -> Iterator[ObjectStoreLake]:
    """A lake with its catalog in a database of PostgreSQL. A schema does not suffice, because Iceberg
    looks for its tables in all schemas.
    """
    import psycopg
    from pyiceberg.catalog.sql import SqlCatalog

    from object_store_lake import ObjectStoreLake

    name = f"lake_{uuid4().hex[:8]}"
    place = urlsplit(postgres)
    uri = f"jdbc:postgresql://{place.hostname}:{place.port}/{name}"
    login = {"jdbc.user": place.username or "", "jdbc.password": place.password or "unused"}
    of_python = place._replace(scheme="postgresql+psycopg", path=f"/{name}").geturl()
    client = SqlCatalog("lake", uri=of_python, init_catalog_tables="false", **s3.properties)
    properties, heading = {**s3.properties, **login}, "S3 with PostgreSQL"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        try:
            yield ObjectStoreLake(kafka, s3, tmp_path, heading, {"uri": uri}, properties, client)
        finally:
            client.engine.dispose()
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture
def rest(s3: S3Server) -> Iterator[RestCatalog]:
    """A REST catalog, which alone knows the keys of the store."""
    from rest_catalog import RestCatalog

    with _running(RestCatalog(s3)) as server:
        yield server


@pytest.fixture
def rest_lake(kafka: str, s3: S3Server, rest: RestCatalog, tmp_path: Path) -> ObjectStoreLake:
    """A lake with a REST catalog that issues the credentials of the store."""
    from pyiceberg.catalog.rest import RestCatalog as RestClient

    from object_store_lake import ObjectStoreLake

    place = {"s3.endpoint": s3.endpoint}
    heading = "REST, with credentials that the catalog issues"
    client = RestClient("lake", uri=rest.uri, **place)
    return ObjectStoreLake(kafka, s3, tmp_path, heading, {"uri": rest.uri}, place, client)
