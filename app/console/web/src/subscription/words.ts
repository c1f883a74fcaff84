// Parts of a subscription's document in a few words.
import type { Json, SubscriptionHealth } from "../api/types";

export type Document = Record<string, unknown>;

type Member = Record<string, unknown> | undefined;

/** "main: orders, returns" */
export function sourceOf(document: Document): string {
  const source = document.source as Member;
  const topics = source?.topics;
  return `${String(source?.broker ?? "?")}: ${Array.isArray(topics) ? topics.join(", ") : "?"}`;
}

/** Its URL, "main: topic", or "pull". */
export function sinkOf(document: Document): string {
  const sink = document.sink;
  if (typeof sink === "string") return sink;
  const member = sink as Member;
  if (!member) return "?";
  if ("pull" in member) return "pulled by consumers";
  return `${String(member.broker)}: ${String(member.topic ?? member.exchange)}`;
}

export type SinkKind = "webhook" | "topic" | "pull";

export function sinkKind(document: Document): SinkKind {
  const sink = document.sink;
  if (typeof sink === "object" && sink !== null) return "pull" in sink ? "pull" : "topic";
  return "webhook";
}

/** Seconds that its oldest event waits: in the log, or in its pull queue. Null if there is none, or if the queue is
 * unknown: its oldest event may wait longer. */
export function oldestOf({ oldest, queue }: SubscriptionHealth): number | null {
  if (queue && queue.waiting === null) return null;
  const inQueue = queue?.oldest_seconds ?? null;
  return oldest === null || inQueue === null ? (oldest ?? inQueue) : Math.max(oldest, inQueue);
}

/** True if an operator, its configuration or a 410 stopped it, so that it has to be resumed. */
export function isHalted({ state, paused_for }: SubscriptionHealth): boolean {
  return state === "disabled" || (state === "paused" && paused_for === null);
}

export function summed(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, each) => total + each, 0);
}

/** Its parked events; null if the store does not answer. */
export const parkedIn = ({ parked }: SubscriptionHealth): number | null => parked && parked.rows;

/** Its dead letters; null if the store does not answer. */
export const lettersIn = ({ dead_letters }: SubscriptionHealth): number | null => dead_letters && summed(dead_letters);

export const jsonOf = (document: Document): Json => document as Json;
