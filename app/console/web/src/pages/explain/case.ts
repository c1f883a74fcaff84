// The case of `skybridge test` that holds what an explanation says now.
import type { Hop, Journey, Json, Verdict } from "../../api/types";
import { toYaml } from "../../yaml";

export interface Asked {
  text: string;
  route: string;
  producer: string;
  key: string;
  /** BROKER/TOPIC to which another client writes the event. */
  asFrom: string;
}

type Members = { [name: string]: Json };

/** Every event of the text is one case. Null: `skybridge test` has no cases of events that other clients write. */
export function casesOf(asked: Asked, journeys: Journey[]): string | null {
  if (asked.asFrom) return null;
  const parsed = JSON.parse(asked.text) as Json;
  const events = (Array.isArray(parsed) ? parsed : [parsed]) as Members[];
  const cases = journeys.map((journey, index) => caseOf(asked, events[index]!, journey));
  return toYaml({ configuration: "skybridge.yaml", cases });
}

function caseOf(asked: Asked, event: Members, journey: Journey): Json {
  const named: Members = { name: nameOf(journey), event };
  if (asked.key) named.key = asked.key;
  if (asked.route) named.route = asked.route;
  if (asked.producer) named.producer = asked.producer;
  return { ...named, mode: "structured", expect: expectedOf(journey) };
}

function nameOf(journey: Journey): string {
  const type = journey.event.type ?? "an event";
  if (journey.refused) return `${type} is refused`;
  const [hop] = journey.hops;
  return hop ? `${type} goes to ${hop.broker}/${hop.topic}` : `${type} goes nowhere`;
}

function expectedOf(journey: Journey): Json {
  if (journey.refused) return { refused: journey.refused.type.split(":").pop() ?? journey.refused.status };
  const chosen = journey.routes.find((each) => each.chosen);
  const expected: Members = {};
  if (chosen) expected.route = chosen.name;
  expected.to = journey.hops.map((hop) => `${hop.broker}/${hop.topic}`);
  const [first] = journey.hops;
  if (first && !first.key_base64) expected.key = first.key;
  expected.subscriptions = takers(journey.hops)
    .map((each) => each.id)
    .sort();
  return expected;
}

/** Subscriptions that get the event, behind mirrors too. */
export function takers(hops: Hop[]): Verdict[] {
  return hops.flatMap((hop) =>
    hop.subscriptions.flatMap((each) => [...(each.wants ? [each] : []), ...(each.onward ? takers([each.onward]) : [])]),
  );
}
