// The state of a subscription in a word that says who is to act.
import type { SubscriptionHealth } from "../api/types";
import { Badge, toneOf } from "../ui/badge";
import { badgeOf, hindranceOf } from "../verdicts";

/** What needs a person comes before what the worker reports. */
export function State({ health }: { health: SubscriptionHealth }) {
  const [words, tone] = badgeOf(health, toneOf);
  return (
    <span title={hindranceOf(health)?.detail}>
      <Badge tone={tone}>{words}</Badge>
    </span>
  );
}
