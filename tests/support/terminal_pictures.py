"""Make the pictures of terminals in docs/pictures: the commands of the README and what they print.

    python -m terminal_pictures     all of them, with a Kafka of their own

A picture is an SVG without a font or a picture from elsewhere. Its description has the commands as text.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.console import Console
from rich.text import Text

from free_ports import free_ports
from kafka_install import CHECKOUT
from kafka_server import KafkaServer
from pages import Block, section
from pasting import Terminals, terminals
from waiting import wait_until

PICTURES = CHECKOUT / "docs" / "pictures"
README = CHECKOUT / "README.md"
LARGEST = 64 << 10  # characters of a picture
COLUMNS = 118
_SVG = """\
<svg viewBox="0 0 {{width}} {{height}}" xmlns="http://www.w3.org/2000/svg">
<desc>{desc}</desc>
<style>
.{{unique_id}}-matrix {{{{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {{char_height}}px; line-height: {{line_height}}px; }}}}
.{{unique_id}}-title {{{{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}}}
{{styles}}
</style>
<defs>
<clipPath id="{{unique_id}}-clip-terminal"><rect x="0" y="0" width="{{terminal_width}}" height="{{terminal_height}}"/></clipPath>
{{lines}}
</defs>
{{chrome}}
<g transform="translate({{terminal_x}}, {{terminal_y}})" clip-path="url(#{{unique_id}}-clip-terminal)">
{{backgrounds}}
<g class="{{unique_id}}-matrix">{{matrix}}</g>
</g>
</svg>
"""


class Scene(NamedTuple):
    """A picture of a section of the README.

    Attributes:
        name: The name of the file without its suffix.
        heading: The section.
        awaited: What the webhook prints before the picture is complete.
    """

    name: str
    heading: str
    awaited: Sequence[str]


SCENES = (
    Scene("first-event", "Your first event", ["A-1001"]),
    Scene("kafka", "Kafka", ["250.00", "99.90"]),
)


def commands(scene: Scene) -> str:
    """Return the commands of the section as text, one block after the other."""
    return "\n".join(_text(block) for block in _shown(scene))


def _shown(scene: Scene) -> list[Block]:
    """Return the blocks of the picture: those that end, and the webhook."""
    return [each for each in section(README, scene.heading) if each.port != "8080"]


def _text(block: Block) -> str:
    """Return the text of a block without the activation of the environment."""
    return "".join(
        line for line in block.text.splitlines(keepends=True) if not line.startswith(". .venv")
    ).rstrip()


def make(pictures: Path, kafka: str) -> None:
    """Make every picture in a folder, with the Kafka at this address."""
    for scene in SCENES:
        with tempfile.TemporaryDirectory() as folder:
            free = map(str, free_ports(3))
            ports = dict(zip(("8080", "8081", "9000"), free, strict=True))
            ports["9092"] = kafka.rpartition(":")[2]
            with terminals(Path(folder), ports) as opened:
                screen = _play(scene, opened)
            shown = [(command, _as_documented(output, ports)) for command, output in screen]
            (pictures / f"{scene.name}.svg").write_text(_drawn(scene, shown), encoding="utf-8")


def _play(scene: Scene, opened: Terminals) -> list[tuple[str, str]]:
    """Paste the blocks of a section. Return the commands and the output of each shown block."""
    screen: list[tuple[str, str]] = []
    webhook: Block | None = None
    for block in section(README, scene.heading):
        printed = opened.paste(block)
        if block.port == "9000":
            webhook = block
        elif not block.port:
            screen.append((_text(block), printed))
            wait_until(
                lambda: all(text in opened.shown("9000") for text in scene.awaited),
                f"{scene.awaited} in the webhook",
            )
    assert webhook is not None
    return [*screen, (_text(webhook), opened.shown("9000"))]


def _as_documented(text: str, ports: Mapping[str, str]) -> str:
    """Return a text with the documented ports in place of the free ones."""
    for documented, free in ports.items():
        text = text.replace(f":{free}", f":{documented}")
    return text


def _drawn(scene: Scene, screen: Sequence[tuple[str, str]]) -> str:
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True)
    for number, (command, output) in enumerate(screen):
        if number:
            console.print()
        console.print(Text("$ ", "bold green") + Text(command, "bold"))
        if output.strip():
            console.print(Text(output.replace("\r", "").rstrip()))
    desc = escape(commands(scene)).replace("{", "{{").replace("}", "}}")
    return console.export_svg(
        title=f"Skybridge: {scene.heading}",
        code_format=_SVG.format(desc=desc),
        unique_id=scene.name,
    )


def main() -> None:
    server = KafkaServer()
    try:
        server.start()
        make(PICTURES, server.bootstrap_servers)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
