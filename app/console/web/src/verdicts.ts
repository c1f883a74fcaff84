// The verdicts of the service in words and colours. The service alone decides what needs a person.
import type { Attention, SubscriptionHealth } from "./api/types";
import { toneOf, type Tone } from "./ui/badge";

type VerdictName = Attention["verdict"];

const WORDS: Record<VerdictName, string> = {
  "broker-away": "broker away",
  "store-away": "store away",
  "spool-filling": "spool fills",
  disk: "disk nearly full",
  "not-ready": "not ready",
  "cannot-run": "cannot run",
  disabled: "disabled",
  "endpoint-fails": "target fails",
  "queue-full": "queue full",
  restarting: "restarting",
  "late-events": "late",
  "lag-grows": "lag grows",
  "unread-queue": "nobody pulls",
  "parked-keys": "keys parked",
  "dead-letters": "dead letters",
  "silent-producer": "silent",
  "reload-refused": "reload refused",
  paused: "paused",
  "alert-fails": "alert fails",
};

export function wordsOf({ verdict }: Attention): string {
  return WORDS[verdict];
}

/** Events that are not accepted or not delivered are bad; the rest is a warning. */
export function toneOfNeed({ severity }: Attention): "bad" | "warn" {
  return severity === "error" ? "bad" : "warn";
}

/** What keeps a subscription from delivering. Dead letters do not: they have a column of their own. */
export function hindranceOf({ attention }: SubscriptionHealth): Attention | undefined {
  return (attention ?? []).find((each) => each.verdict !== "dead-letters");
}

/** A state in one word, and its tone: the first verdict, or what the worker reports. */
export function badgeOf(health: SubscriptionHealth): [string, Tone] {
  const found = hindranceOf(health);
  if (found) return [wordsOf(found), toneOfNeed(found)];
  if (health.state === "paused" && health.paused_for !== null) return ["tries again", "warn"];
  return [health.state, toneOf(health.state)];
}
