"""``helm test`` as it is rendered, against a real service: program, paths and schemes of the hook are those it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

import chart
from reload_service import ReloadService


class Hook(NamedTuple):
    """``program`` as the pod mounts it, ``urls`` as it is given them."""

    program: Path
    urls: list[str]

    def asks(self, service: ReloadService, within: int) -> tuple[int, str]:
        """With this machine for the names of the cluster. ``within``: seconds until it gives up."""
        events, admin = (
            urlsplit(url)._replace(netloc=f"127.0.0.1:{port}").geturl()
            for url, port in zip(self.urls, (service.events, service.admin), strict=True)
        )
        text = self.program.read_text().replace("WITHIN = 60.0", f"WITHIN = {within}.0")
        done = subprocess.run(
            [sys.executable, "-", events, admin],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        return done.returncode, done.stdout


@pytest.fixture
def hook(helm_program: Path, tmp_path: Path) -> Hook:
    text = chart.rendered(chart.case("single"))
    (pod,) = (
        each
        for each in chart.of_kind(text, "Pod")
        if each["metadata"]["annotations"]["helm.sh/hook"] == "test"
    )
    (container,) = pod["spec"]["containers"]
    (volume,) = pod["spec"]["volumes"]
    (mounted,) = (
        each
        for each in chart.of_kind(text, "ConfigMap")
        if each["metadata"]["name"] == volume["configMap"]["name"]
    )
    name = Path(container["command"][-1]).name
    program = tmp_path / name
    program.write_text(mounted["data"][name])
    return Hook(program, container["args"])


def test_the_hook_passes_a_service_that_works_and_fails_one_that_is_gone(
    hook: Hook, tmp_path: Path
) -> None:
    """It posts nothing: the log has no topic afterwards."""
    folder = tmp_path / "service"
    folder.mkdir()
    service = ReloadService(folder)
    with service.running():
        assert hook.asks(service, 60) == (0, "events are taken, and every role does its work\n")
        assert service.ask("GET", "/v1/topics")[1] == []
        service.process.stop()
        code, said = hook.asks(service, 0)
    assert code == 1
    assert "/events" in said
    assert "/readyz" in said
