// Counters over time, as this page has seen them.
import type { Status, SubscriptionHealth, SubscriptionHistory } from "./api/types";

interface SubscriptionSample {
  delivered: number;
  answers: Record<string, number>;
  lag: number | null;
}

export interface Sample {
  /** Seconds since the epoch. */
  at: number;
  /** Since the start of the process: smaller than before, it has begun again. */
  uptime: number;
  routes: Map<string, number>;
  producers: Map<string, number>;
  subscriptions: Map<string, SubscriptionSample>;
}

export function sampleOf(status: Status): Sample {
  return {
    at: Date.now() / 1000,
    uptime: status.uptime_seconds,
    producers: new Map((status.producers ?? []).map((each) => [each.name, each.events])),
    routes: new Map(status.routes.map((each) => [each.name, each.events])),
    subscriptions: new Map(status.subscriptions.map((each) => [each.id, ofSubscription(each)])),
  };
}

const WHOLE = 1; // seconds

/** Adds a sample. One that comes sooner, as after a change, takes the place of the last: the rate of an instant would be
 * the last point of a chart. */
export function withSample(samples: Sample[], sample: Sample): Sample[] {
  const last = samples.at(-1);
  const sooner = last && samples.length > 1 && sample.at - last.at < WHOLE && sample.uptime >= last.uptime;
  return [...(sooner ? samples.slice(0, -1) : samples), sample];
}

function ofSubscription(each: SubscriptionHealth): SubscriptionSample {
  return { delivered: each.delivered, answers: each.answers, lag: each.lag };
}

/** What the service has recorded of a subscription, before the samples of this page. */
export function withHistory(samples: Sample[], id: string, history: SubscriptionHistory | undefined): Sample[] {
  const [first] = samples;
  if (!history || !first) return samples;
  const start = first.at - first.uptime;
  const before = history.points.filter((each) => each.at < first.at && each.at > start);
  return [...before.map(({ at, ...rest }) => ofHistory(id, at, at - start, { ...rest })), ...samples];
}

function ofHistory(id: string, at: number, uptime: number, found: SubscriptionSample): Sample {
  return { at, uptime, producers: new Map(), routes: new Map(), subscriptions: new Map([[id, found]]) };
}

type Pick = (sample: Sample) => number | undefined;

/** Events a second over the last `seconds`; null until there are two samples. */
export function rateNow(samples: Sample[], pick: Pick, seconds = 6): number | null {
  const last = samples.at(-1);
  if (!last) return null;
  const first = samples.find((each) => each.at >= last.at - seconds && each.uptime <= last.uptime);
  return between(first === last ? samples.at(-2) : first, last, pick); // answers may be slower than that
}

/** A rate for every sample but the first. */
export function rates(samples: Sample[], pick: Pick): (number | null)[] {
  return samples.map((each, index) => between(samples[index - 1], each, pick));
}

function between(first: Sample | undefined, last: Sample, pick: Pick): number | null {
  if (!first || first === last || first.uptime > last.uptime) return null;
  const [before, after] = [pick(first), pick(last)];
  if (before === undefined || after === undefined || after < before) return null;
  return (after - before) / Math.max(0.001, last.uptime - first.uptime);
}


export const delivered = (id: string) => (sample: Sample) => sample.subscriptions.get(id)?.delivered;
export const published = (route: string) => (sample: Sample) => sample.routes.get(route);
export const sent = (producer: string) => (sample: Sample) => sample.producers.get(producer);
