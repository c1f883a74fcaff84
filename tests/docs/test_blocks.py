"""Every fenced block of the README and of docs/ works as it stands."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from typer.testing import CliRunner

from app.cli.commands import app
from pages import CHECKOUT, PAGES, Block, blocks
from service_process import ServeProcess
from waiting import wait_until

ALL = [block for page in PAGES for block in blocks(page)]
TO_RUN = [block for block in ALL if not block.reason]
README_CONFIGURATION = next(
    block for block in ALL if block.language == "yaml" and block.page.name == "README.md"
)


def of_language(language: str) -> list[Block]:
    return [block for block in TO_RUN if block.language == language]


WITH_BASH = sorted({block.page for block in of_language("bash")})


@pytest.mark.timeout(1_800)  # a page starts a dozen programs, and the machine may be starved
@pytest.mark.parametrize("page", WITH_BASH, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_the_bash_blocks_of_a_page_run_as_pasted(page, running_anew):
    """What a newcomer pastes first must work (issue: README); a page is read from its top, and needs
    no other page's blocks."""
    for block in of_language("bash"):
        if block.page == page:
            result = running_anew.pasted(block.text, program=page.name == "README.md")
            assert result.returncode == 0, f"{block}: {result.stdout}{result.stderr}"


@pytest.mark.parametrize("block", of_language("yaml"), ids=str)
def test_a_yaml_block_is_a_configuration_without_errors(block, tmp_path):
    """An example that does not load teaches the wrong thing. Asked in this process: there are many."""
    file = tmp_path / "skybridge.yaml"
    file.write_text(block.text)
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0, result.output


def test_every_other_block_says_why_it_is_not_run():
    """A new language, or a forgotten marker, is noticed."""
    assert [str(block) for block in TO_RUN if block.language not in {"bash", "yaml"}] == []


def test_the_make_verbs_of_unexecuted_blocks_exist():
    """`make test` cannot run inside itself; its target must be there all the same."""
    makefile = (CHECKOUT / "Makefile").read_text()
    wanted = {
        verb
        for block in ALL
        if block.reason
        for verb in re.findall(r"(?m)^[^#\n]*\bmake ([a-z]+)", block.text)
    }
    assert wanted
    assert [verb for verb in wanted if not re.search(rf"^{verb}:", makefile, re.MULTILINE)] == []


@pytest.fixture
def received(stand_ins) -> Iterator[list[tuple[dict[str, str], bytes]]]:
    """A webhook on the documented port's stand-in: headers and bodies."""
    arrived: list[tuple[dict[str, str], bytes]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            arrived.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Quiet: the answers are asserted."""

    server = HTTPServer(("127.0.0.1", int(stand_ins.ports["9000"])), Hook)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield arrived
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_configuration_of_the_readme_serves_and_delivers(stand_ins, received):
    """Not only does it load: an event goes all the way to the webhook it names."""
    config = stand_ins.folder / "skybridge.yaml"
    config.write_text(stand_ins.localised(README_CONFIGURATION.text))
    admin = stand_ins.ports["8081"]
    service = ServeProcess(config, stand_ins.folder, int(admin))
    service.start(
        {
            "SKYBRIDGE_SERVER__EVENTS__PORT": stand_ins.ports["8080"],
            "SKYBRIDGE_SERVER__ADMIN__PORT": admin,
            "SKYBRIDGE_TIMEOUTS__NOT_READY": "0s",
        }
    )
    try:
        assert post_order(int(stand_ins.ports["8080"])) == 202
        wait_until(lambda: bool(received), "delivery", 60)
    finally:
        service.stop()
    headers, body = received[0]
    assert (headers["ce-id"], body) == ("readme-1", b'{"order":"A-1001"}')


def post_order(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(
        "POST",
        "/events",
        body=b'{"order":"A-1001"}',
        headers={
            "content-type": "application/json",
            "ce-specversion": "1.0",
            "ce-id": "readme-1",
            "ce-source": "/shop",
            "ce-type": "com.example.order.created",
            "ce-partitionkey": "customer-7",
        },
    )
    status = connection.getresponse().status
    connection.close()
    return status
