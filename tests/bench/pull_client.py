"""A consumer that pulls: receives events in batches and acknowledges each batch, until it has had so many."""

from __future__ import annotations

import argparse
import json
from typing import Any

import httpx


def pull(base: str, events: int, batch: int) -> int:
    """How many requests it took."""
    requests = 0
    with httpx.Client(trust_env=False, timeout=90) as client:

        def ask(verb: str, **body: Any) -> Any:
            nonlocal requests
            requests += 1
            return client.post(f"{base}:{verb}", json=body).raise_for_status().json()

        while events > 0:
            found = ask("receive", max_events=min(batch, events), max_wait=30)["events"]
            tokens = [each["broker_properties"]["lock_token"] for each in found]
            if tokens and (failed := ask("acknowledge", tokens=tokens)["failed"]):
                raise RuntimeError(f"not acknowledged: {failed[:1]}")
            events -= len(tokens)
    return requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the admin listener")
    parser.add_argument("--subscription", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    given = parser.parse_args()
    base = f"http://127.0.0.1:{given.port}/v1/subscriptions/{given.subscription}"
    print(json.dumps({"requests": pull(base, given.events, given.batch)}))


if __name__ == "__main__":
    main()
