// The state of a subscription in a word that says who is to act.
import type { SubscriptionHealth } from "../api/types";
import { useStatus } from "../status";
import { Badge, toneOf } from "../ui/badge";
import { badgeOf, hindranceOf } from "../verdicts";

/** What needs a person comes before what the worker reports. */
export function State({ health }: { health: SubscriptionHealth }) {
  const [words, tone] = badgeOf(health);
  return (
    <span title={hindranceOf(health)?.detail}>
      <Badge tone={tone}>{words}</Badge>
    </span>
  );
}

/** The same for a page that knows only the id. `state`: what it knows of a subscription that the status does not name. */
export function StateOf({ id, state }: { id: string; state: string }) {
  const health = useStatus().value?.subscriptions.find((each) => each.id === id);
  return health ? <State health={health} /> : <Badge tone={toneOf(state)}>{state}</Badge>;
}
