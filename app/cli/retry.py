"""``skybridge retry`` tries waiting events of a subscription now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from app.cli import options, printing
from app.cli.admin_client import AdminClient, subscription_path
from app.cli.subscriptions import Name
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Mapping


@verb(
    "retry",
    "skybridge retry billing",
    "skybridge retry billing --key customer-7",
    "skybridge retry billing --event A-1001",
    "skybridge retry billing --force       # also if the target asked to wait",
)
def retry(
    name: Name,
    key: Annotated[
        str,
        option(
            "Try only the parked events of this record key, or of this value of order_by; by default all parked events."
        ),
    ] = "",
    event: Annotated[
        str,
        option(
            "Try only the parked events with the same key as the event with this id; by default all parked events.",
            "-e",
        ),
    ] = "",
    force: Annotated[
        bool,
        option(
            "Try at once, even if the target asked for a longer wait with the header Retry-After."
        ),
    ] = False,
    *,
    service: AdminClient,
) -> None:
    """Try waiting events now, after the target was repaired.

    A paused endpoint is probed at once, and the other events follow its answer. A try that fails
    takes no step of the schedule, and the event waits until the earlier time.
    """
    if key:
        options.refuse_ineffective("--key names the key already", "event")
    asked: dict[str, Any] = {"force": force}
    asked |= {word: text for word, text in (("key", key), ("event", event)) if text}
    service.show(
        service.post(subscription_path(name, ":retry"), asked), lambda found: _show(name, found)
    )


def _show(name: str, found: Mapping[str, Any]) -> None:
    keys = found["keys"]
    if found["retry_after"] is not None:
        printing.text_line(
            f"{name} waits {found['retry_after']:.0f} s, because its target asked for it (Retry-After); "
            f"try before: skybridge retry {name} --force"
        )
    elif found["probe"]:
        printing.text_line(f"{name} probes its target now; the waiting events follow the answer")
    elif keys:
        waiting = printing.counted(keys, "waiting event")
        printing.text_line(f"{name} tries {waiting} now; later events of their keys follow")
    else:
        printing.text_line(f"{name} has no waiting event")
