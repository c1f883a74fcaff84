"""The workflows of GitHub are valid, pinned, and call what the project has. No test can run them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import actionlint_install
from kafka_install import Missing
from pages import CHECKOUT
from skipping import skip_or_fail

GITHUB = CHECKOUT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}
)
EACH = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.name)


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step for job in jobs for step in job.get("steps", ())]


def test_actionlint_has_no_finding():
    """It knows the syntax, the contexts and the inputs of GitHub's workflows."""
    try:
        program = actionlint_install.install()
    except Missing as missing:
        skip_or_fail(missing)
    command = [program, "-shellcheck=", "-pyflakes=", *WORKFLOWS]  # these two are not everywhere
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@EACH
def test_each_action_is_pinned_by_a_digest(workflow):
    """A tag can move to other code; a digest cannot. The comment names the version for people."""
    used = re.findall(r"^ *-? *uses: (\S+)(.*)$", workflow.read_text(), re.MULTILINE)
    foreign = [(action, comment) for action, comment in used if not action.startswith("./")]
    assert used
    assert [
        action
        for action, comment in foreign
        if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)
        or not re.fullmatch(r" # v\d+\.\d+\.\d+", comment)
    ] == []


def test_an_action_has_one_version():
    """An update that forgot a file would leave the old code in use."""
    used = {
        tuple(action.split("@"))
        for workflow in WORKFLOWS
        for action in re.findall(r"uses: ([\w/-]+@[0-9a-f]+)", workflow.read_text())
    }
    assert len({name for name, _ in used}) == len(used)


@EACH
def test_a_workflow_has_no_right_by_default(workflow):
    """A job gets the rights that it needs; else a foreign action could write to the repository."""
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}


@EACH
def test_no_step_keeps_the_token(workflow):
    """A checkout leaves no credential for the code that it runs."""
    checkouts = [each for each in steps(workflow) if "actions/checkout@" in each.get("uses", "")]
    assert [each for each in checkouts if each["with"]["persist-credentials"] is not False] == []


def test_the_verbs_of_the_workflows_exist():
    """`make` and `.ci/run` are what a person calls, too."""
    makefile = (CHECKOUT / "Makefile").read_text()
    called = "\n".join(step.get("run", "") for workflow in WORKFLOWS for step in steps(workflow))
    verbs = set(re.findall(r"\bmake ([a-z]+)", called))
    assert verbs == {"site", "wheel", "sbom"}
    assert [verb for verb in verbs if not re.search(rf"^{verb}:", makefile, re.MULTILINE)] == []
    assert ".ci/run" in called.splitlines()


def test_the_images_are_targets_of_the_dockerfile():
    """Those of the pull request and those of the release."""
    targets = set(
        re.findall(r"^FROM \S+ AS (\w+)", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    )
    for name in ("ci.yml", "release.yml"):
        job = yaml.safe_load((GITHUB / "workflows" / name).read_text())["jobs"]["image"]
        matrix = job["strategy"]["matrix"]
        built = {*matrix.get("target", ()), *(each["target"] for each in matrix.get("include", ()))}
        assert built == {"service", "pipeline"}
        assert built <= targets


def test_the_notes_of_a_release_are_its_part_of_the_changelog(tmp_path):
    """The script of the workflow, on a changelog of two versions."""
    job = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text())["jobs"]["release"]
    (script,) = [step["run"] for step in job["steps"] if "gh release create" in step.get("run", "")]
    log = "# Changelog\n\n## [0.2.0] - 2027-01-01\n\nNew.\n\n## [0.1.0] - 2026-12-01\n\nFirst.\n"
    (tmp_path / "CHANGELOG.md").write_text(log)
    command = script.partition("\n")[0]
    environ = {"VERSION": "0.2.0", "PATH": "/usr/bin:/bin"}
    subprocess.run(["bash", "-eu", "-c", command], cwd=tmp_path, env=environ, check=True)
    assert (tmp_path / "notes.md").read_text().strip() == "New."


@pytest.mark.parametrize("form", FORMS, ids=lambda file: file.name)
def test_a_form_for_issues_is_one_that_github_shows(form):
    """GitHub leaves out a form with a mistake, and tells nobody."""
    given = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= given.keys()
    ids = [part["id"] for part in given["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids))
    for part in given["body"]:
        assert part["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
        assert part["attributes"]["value" if part["type"] == "markdown" else "label"]
        assert all(part["attributes"].get("options", [True]))
