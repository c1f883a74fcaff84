// The topics that a search can name: those of the brokers that answer, and of the others those of the configuration.
import type { ListedSubscription, Status, Topic } from "../../api/types";

export interface Choice {
  broker: string;
  name: string;
  /** True if its broker does not answer. */
  unreachable: boolean;
}

export function choicesOf(topics: Topic[], status: Status | undefined, listed: ListedSubscription[]): Choice[] {
  const there = topics.map(({ broker, name }) => ({ broker, name, unreachable: false }));
  const away = awayOf(status);
  const named = [...targetsOf(status), ...sourcesOf(listed)].filter(
    ({ broker, name }) => away.has(broker) && !there.some((each) => each.broker === broker && each.name === name),
  );
  const unique = new Map(named.map((each) => [`${each.broker}/${each.name}`, { ...each, unreachable: true }]));
  return [...there, ...unique.values()];
}

/** Brokers that do not answer, with the cause. */
export function awayOf(status: Status | undefined): Map<string, string> {
  const brokers = Object.entries(status?.brokers ?? {}).filter(([, health]) => !health.healthy);
  return new Map(brokers.map(([name, health]) => [name, health.cause]));
}

function targetsOf(status: Status | undefined) {
  const targets = (status?.routes ?? []).flatMap((each) => each.to);
  return targets.map(({ broker, topic }) => ({ broker, name: topic })).filter(({ name }) => !name.includes("{"));
}

function sourcesOf(listed: ListedSubscription[]) {
  return listed.flatMap(({ document }) => {
    const { broker, topics } = document.source as { broker: string; topics: string[] };
    return topics.map((name) => ({ broker, name }));
  });
}
