// The state of a subscription in a word that says who is to act.
import type { SubscriptionHealth } from "../api/types";
import { Badge, toneOf } from "../ui/badge";
import { sinkKind, type Document } from "./words";

/** `paused` is what a person did. The service also pauses by itself: while a target fails, and while a queue is full. */
export function State({ health, document }: { health: SubscriptionHealth; document: Document | undefined }) {
  if (health.broker_health.healthy === false)
    return (
      <span title={health.broker_health.cause}>
        <Badge tone="bad">broker away</Badge>
      </span>
    );
  if (health.state !== "paused" || health.paused_for === null)
    return <Badge tone={toneOf(health.state)}>{health.state}</Badge>;
  return document && sinkKind(document) === "pull" ? (
    <Badge tone="warn">queue full</Badge>
  ) : (
    <Badge tone="bad">target fails</Badge>
  );
}
