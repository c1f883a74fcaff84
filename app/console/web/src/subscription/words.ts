// Parts of a subscription's document in a few words.
import type { Json } from "../api/types";

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

export function summed(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, each) => total + each, 0);
}

export const jsonOf = (document: Document): Json => document as Json;
