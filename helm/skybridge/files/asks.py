# ruff: noqa: INP001, T201 - a program of its own, in a pod that has nothing else
"""Asks a release of Skybridge whether it takes events and does its work. Posts nothing.

python asks.py EVENTS_URL READINESS_URL: ends with 0 when both answer as they should, else says what did not.
"""

from __future__ import annotations

import ssl
import sys
import time
import urllib.error
import urllib.request

WITHIN = 60.0  # seconds: pods may have become ready this moment

# Reachability is asked, not identity: the certificate may be for the name that senders use.
UNCHECKED = ssl._create_unverified_context()  # noqa: S323, SLF001


def answer(url: str, method: str, headers: dict[str, str]) -> str:
    """Empty when all is well, else what is not."""
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - of the chart
    try:
        with urllib.request.urlopen(request, timeout=10, context=UNCHECKED):  # noqa: S310
            return ""
    except urllib.error.HTTPError as error:
        return f"{method} {url}: {error.code} {error.read(2000).decode(errors='replace')}"
    except OSError as error:
        return f"{method} {url}: {error}"


def asked(events: str, readiness: str) -> list[str]:
    """The handshake of webhooks reaches the events listener and changes nothing."""
    found = (
        answer(events, "OPTIONS", {"WebHook-Request-Origin": "helm-test"}),
        answer(readiness, "GET", {}),
    )
    return [each for each in found if each]


def main(events: str, readiness: str) -> int:
    deadline = time.monotonic() + WITHIN
    while (faults := asked(events, readiness)) and time.monotonic() < deadline:
        time.sleep(2)
    print("\n".join(faults) or "events are taken, and every role does its work")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
