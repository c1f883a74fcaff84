// What the form holds, and the document that it gives. Members that have no field stay as they are, as YAML.
import { CORE_SCHEMA, load } from "js-yaml";

import type { Json } from "../api/types";
import { toYaml } from "../yaml";
import type { Document, SinkKind } from "./words";
import { sinkKind } from "./words";

export type Dialect = "exact" | "prefix" | "suffix" | "sql";
export type Group = "all" | "any" | "not";

export interface SimpleFilter {
  dialect: Dialect;
  attribute: string;
  value: string;
}

/** `not` has one inner filter. */
export interface GroupFilter {
  dialect: Group;
  inner: FilterDraft[];
}

export type FilterDraft = SimpleFilter | GroupFilter;

export function isGroup(filter: FilterDraft): filter is GroupFilter {
  return "inner" in filter;
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
  filters: FilterDraft[];
  ordering: Ordering;
  timeout: string;
  rateLimit: string;
  /** Credentials for the webhook, as the document has them; null without. */
  auth: Member | null;
  signing: Member | null;
  /** YAML of all other members. */
  others: string;
}

const ORDERINGS = ["per_key", "per_producer_key", "none"] as const;
type Ordering = (typeof ORDERINGS)[number];

export const NEW_FILTER: SimpleFilter = { dialect: "exact", attribute: "type", value: "" };

const NAMES = ["id", "source", "sink", "start", "filters", "ordering", "timeout", "rate_limit", "auth", "signing"];
const FIELDS = new Set(NAMES);
export type Member = Record<string, unknown>;

export function draftOf(document: Document): Draft {
  const source = (document.source ?? {}) as Member;
  const kind = sinkKind(document);
  const sink = (kind === "topic" ? document.sink : {}) as Member;
  const filters = filterDrafts(document.filters);
  const start = document.start ?? "latest";
  const others = Object.entries(document).filter(([name]) => !FIELDS.has(name));
  if (!filters) others.push(["filters", document.filters]);
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
    filters: filters ?? [],
    ordering: ORDERINGS.find((each) => each === document.ordering) ?? "per_key",
    timeout: String(document.timeout ?? ""),
    rateLimit: String(document.rate_limit ?? ""),
    auth: (document.auth as Member | null | undefined) ?? null,
    signing: (document.signing as Member | null | undefined) ?? null,
    others: others.length ? toYaml(Object.fromEntries(others) as Json) : "",
  };
}

/** Whether the fields of the form say all of it: not a sink with an exchange, or with settings of pulling. */
function plainSink(sink: Member): boolean {
  if ("pull" in sink) return Object.keys((sink.pull ?? {}) as Member).length === 0;
  return Object.keys(sink).every((name) => name === "broker" || name === "topic");
}

/** Undefined where one of them has no row in the form. */
function filterDrafts(given: unknown): FilterDraft[] | undefined {
  const found = ((given ?? []) as Member[]).map(filterDraft);
  return found.every((each) => each !== undefined) ? found : undefined;
}

function filterDraft(given: Member): FilterDraft | undefined {
  const members = Object.entries(given).filter(([, value]) => value !== null);
  const [dialect, argument] = members[0] ?? [];
  if (members.length !== 1) return undefined;
  if (dialect === "sql") return { dialect, attribute: "", value: String(argument) };
  if (dialect === "all" || dialect === "any" || dialect === "not") {
    const inner = filterDrafts(dialect === "not" ? [argument] : argument);
    return inner && { dialect, inner };
  }
  if (dialect !== "exact" && dialect !== "prefix" && dialect !== "suffix") return undefined;
  const pairs = Object.entries(argument as Member);
  return pairs.length === 1 ? { dialect, attribute: pairs[0]![0], value: String(pairs[0]![1]) } : undefined;
}

interface Written {
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
    ...(draft.sink === "webhook" && draft.auth ? { auth: draft.auth } : {}),
    ...(draft.sink === "webhook" && draft.signing ? { signing: draft.signing } : {}),
  };
  if (!draft.others.trim()) return { document, problem: "" };
  try {
    const others = load(draft.others, { schema: CORE_SCHEMA });
    if (typeof others !== "object" || others === null || Array.isArray(others)) throw new Error("write NAME: VALUE");
    return { document: { ...document, ...others }, problem: "" };
  } catch (error) {
    return { document, problem: `Other settings are not YAML: ${(error as Error).message}` };
  }
}

/** A time-out of the API is in seconds, one that a person writes has a unit. */
function numberOr(text: string): string | number {
  const number = Number(text);
  return Number.isNaN(number) ? text.trim() : number;
}

export function words(text: string): string[] {
  return text.split(",").map((each) => each.trim()).filter(Boolean);
}

function filterOf(filter: FilterDraft): Member {
  if (isGroup(filter)) {
    const inner = filter.inner.map(filterOf);
    return { [filter.dialect]: filter.dialect === "not" ? inner[0] : inner };
  }
  const { dialect, attribute, value } = filter;
  return dialect === "sql" ? { sql: value } : { [dialect]: { [attribute]: value } };
}

function sinkFrom(draft: Draft): unknown {
  if (draft.sink === "pull") return { pull: {} };
  if (draft.sink === "topic") return { broker: draft.sinkBroker, topic: draft.sinkTopic };
  return draft.url;
}
