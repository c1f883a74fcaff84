// What the form holds, and the document that it gives. Members that have no field stay as they are, as JSON.
import type { Document, SinkKind } from "./words";
import { sinkKind } from "./words";

export type Dialect = "exact" | "prefix" | "suffix" | "sql";

export interface SimpleFilter {
  dialect: Dialect;
  attribute: string;
  value: string;
}

export interface Draft {
  id: string;
  broker: string;
  /** With commas between them. */
  topics: string;
  sink: SinkKind;
  url: string;
  sinkBroker: string;
  sinkTopic: string;
  start: "earliest" | "latest" | "other";
  filters: SimpleFilter[];
  ordering: Ordering;
  timeout: string;
  rateLimit: string;
  /** JSON of all other members. */
  others: string;
}

export const ORDERINGS = ["per_key", "per_producer_key", "none"] as const;
export type Ordering = (typeof ORDERINGS)[number];

export const NEW_FILTER: SimpleFilter = { dialect: "exact", attribute: "type", value: "" };

const FIELDS = new Set(["id", "source", "sink", "start", "filters", "ordering", "timeout", "rate_limit"]);
type Member = Record<string, unknown>;

export function draftOf(document: Document): Draft {
  const source = (document.source ?? {}) as Member;
  const kind = sinkKind(document);
  const sink = (kind === "topic" ? document.sink : {}) as Member;
  const simple = simpleFilters(document.filters);
  const start = document.start ?? "latest";
  const others = Object.entries(document).filter(([name]) => !FIELDS.has(name));
  if (!simple) others.push(["filters", document.filters]);
  if (typeof start !== "string") others.push(["start", start]);
  if (kind !== "webhook" && !plainSink(document.sink as Member)) others.push(["sink", document.sink]);
  return {
    id: String(document.id ?? ""),
    broker: String(source.broker ?? ""),
    topics: Array.isArray(source.topics) ? source.topics.join(", ") : "",
    sink: kind,
    url: typeof document.sink === "string" ? document.sink : "",
    sinkBroker: String(sink.broker ?? source.broker ?? ""),
    sinkTopic: String(sink.topic ?? ""),
    start: start === "earliest" || start === "latest" ? start : "other",
    filters: simple ?? [],
    ordering: ORDERINGS.find((each) => each === document.ordering) ?? "per_key",
    timeout: String(document.timeout ?? ""),
    rateLimit: String(document.rate_limit ?? ""),
    others: others.length ? JSON.stringify(Object.fromEntries(others), null, 2) : "",
  };
}

/** Whether the fields of the form say all of it: not a sink with an exchange, or with settings of pulling. */
function plainSink(sink: Member): boolean {
  if ("pull" in sink) return Object.keys((sink.pull ?? {}) as Member).length === 0;
  return Object.keys(sink).every((name) => name === "broker" || name === "topic");
}

/** Undefined where one of them has no row in the form. */
function simpleFilters(given: unknown): SimpleFilter[] | undefined {
  if (given === undefined) return [];
  const found: SimpleFilter[] = [];
  for (const each of given as Member[]) {
    const members = Object.entries(each).filter(([, value]) => value !== null);
    const [dialect, argument] = members[0] ?? [];
    if (members.length !== 1) return undefined;
    if (dialect === "sql") found.push({ dialect, attribute: "", value: String(argument) });
    else if (dialect === "exact" || dialect === "prefix" || dialect === "suffix") {
      const pairs = Object.entries(argument as Member);
      if (pairs.length !== 1) return undefined;
      found.push({ dialect, attribute: pairs[0]![0], value: String(pairs[0]![1]) });
    } else return undefined;
  }
  return found;
}

export interface Written {
  document: Document;
  /** Why the other settings cannot be read. */
  problem: string;
}

export function documentFrom(draft: Draft): Written {
  const document: Document = {
    id: draft.id,
    source: { broker: draft.broker, topics: words(draft.topics) },
    ...(draft.start === "other" ? {} : { start: draft.start }),
    ...(draft.filters.length ? { filters: draft.filters.map(filterOf) } : {}),
    sink: sinkFrom(draft),
    ...(draft.ordering === "per_key" ? {} : { ordering: draft.ordering }),
    ...(draft.timeout.trim() ? { timeout: numberOr(draft.timeout) } : {}),
    ...(draft.rateLimit.trim() ? { rate_limit: draft.rateLimit.trim() } : {}),
  };
  if (!draft.others.trim()) return { document, problem: "" };
  try {
    const others: unknown = JSON.parse(draft.others);
    if (typeof others !== "object" || others === null || Array.isArray(others)) throw new Error("it is no object");
    return { document: { ...document, ...others }, problem: "" };
  } catch (error) {
    return { document, problem: `Other settings are not JSON: ${(error as Error).message}` };
  }
}

/** A time-out of the API is in seconds, one that a person writes has a unit. */
function numberOr(text: string): string | number {
  const number = Number(text);
  return Number.isNaN(number) ? text.trim() : number;
}

function words(text: string): string[] {
  return text.split(",").map((each) => each.trim()).filter(Boolean);
}

function filterOf({ dialect, attribute, value }: SimpleFilter): Member {
  return dialect === "sql" ? { sql: value } : { [dialect]: { [attribute]: value } };
}

function sinkFrom(draft: Draft): unknown {
  if (draft.sink === "pull") return { pull: {} };
  if (draft.sink === "topic") return { broker: draft.sinkBroker, topic: draft.sinkTopic };
  return draft.url;
}
