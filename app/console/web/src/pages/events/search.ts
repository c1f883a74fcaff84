// The search of records: what the form says, what the API is asked, and what came so far.
import { useEffect, useRef, useState } from "preact/hooks";

import { address, api, problemOf, type Answer } from "../../api/client";
import { follow } from "../../api/stream";
import type { Message, Paths, Problem } from "../../api/types";

type Page = Answer<typeof RECORDS, "get">;
type Asked = NonNullable<Paths[typeof RECORDS]["get"]["parameters"]["query"]>;

/** As the address of the page holds it. */
export interface Search {
  broker: string;
  topic: string;
  /** `latest-100`, `earliest`, `1h` for an hour ago, or a moment. */
  from: string;
  type: string;
  source: string;
  subject: string;
  live: boolean;
}

const RECORDS = "/v1/topics/{broker}/{topic}/records";
export const NEWEST = "latest-100";
const AT_ONCE = 500; // messages of one answer
export const MOST = 5_000; // rows that the page keeps
const DRAW_MS = 200; // between two drawings of a live tail

export function searchOf(query: URLSearchParams): Search {
  const text = (name: string) => query.get(name) ?? "";
  return {
    broker: text("broker"),
    topic: text("topic"),
    from: text("from") || NEWEST,
    type: text("type"),
    source: text("source"),
    subject: text("subject"),
    live: text("live") === "1",
  };
}

const UNITS: Record<string, number> = { m: 60, h: 3600, d: 86_400 };

/** What the API takes as `from`. */
export function beginning(from: string, now = Date.now()): string {
  const ago = /^(\d+)([mhd])$/.exec(from);
  if (!ago) return from;
  return new Date(now - Number(ago[1]) * UNITS[ago[2]!]! * 1000).toISOString();
}

function wanted(search: Search) {
  const { type, source, subject } = search;
  return { type: type || null, source: source || null, subject: subject || null };
}

interface Results {
  /** The newest first. */
  rows: Message[];
  lookedAt: number;
  /** The last place of a search that went not to the end. */
  next: string | null;
  busy: boolean;
  problem: Problem | undefined;
  more: () => void;
}

/** Searches when `search` changes: page after page until there are enough rows, or the end is reached. */
export function useSearch(search: Search, again: number): Results {
  const [state, set] = useState<Omit<Results, "more">>(nothing(true));
  const control = useRef(new AbortController());
  const run = async (from: string, before: Message[], lookedAt: number, most: number) => {
    const { signal } = control.current;
    const { broker, topic } = search;
    let rows = before;
    let next: string | null = from;
    try {
      while (next !== null && rows.length < most) {
        const query: Asked = { from: next, limit: AT_ONCE, max_bytes: 8 << 20, max_wait: 2, ...wanted(search) };
        const page: Page = await api.get(RECORDS, { path: { broker, topic }, query, signal });
        rows = [...page.messages, ...rows].sort(newestFirst);
        lookedAt += page.looked_at;
        next = page.complete ? null : page.next;
        if (!signal.aborted) set({ rows, lookedAt, next, busy: next !== null, problem: undefined });
      }
      if (!signal.aborted) set({ rows, lookedAt, next, busy: false, problem: undefined });
    } catch (error) {
      if (!signal.aborted) set({ rows, lookedAt, next, busy: false, problem: problemOf(error) });
    }
  };
  const key = JSON.stringify(search);
  useEffect(() => {
    control.current = new AbortController();
    const mine = control.current;
    set(nothing(Boolean(search.topic) && !search.live));
    if (search.topic && !search.live) void run(beginning(search.from), [], 0, AT_ONCE);
    return () => mine.abort();
  }, [key, again]);
  const more = () => {
    if (state.next === null || state.busy || state.rows.length >= MOST) return;
    set((old) => ({ ...old, busy: true }));
    void run(state.next, state.rows, state.lookedAt, Math.min(MOST, state.rows.length + AT_ONCE));
  };
  return { ...state, more };
}

/** Records of one batch have one time: then the later position comes first. */
function newestFirst(one: Message, other: Message): number {
  if (one.time_ms !== other.time_ms) return other.time_ms - one.time_ms;
  if (one.partition !== other.partition) return one.partition - other.partition;
  return other.position.length - one.position.length || (other.position > one.position ? 1 : -1);
}

function nothing(busy: boolean): Omit<Results, "more"> {
  return { rows: [], lookedAt: 0, next: null, busy, problem: undefined };
}

export interface Live {
  /** The newest first, at most MOST. */
  rows: Message[];
  /** Of all that came since the tail began. */
  count: number;
  open: boolean;
  /** True if it was refused: it is not tried again. */
  ended: boolean;
  problem: Problem | undefined;
}

const NO_EVENT: Live = { rows: [], count: 0, open: false, ended: false, problem: undefined };

/** Follows a topic while `on`. Paused, rows wait and are drawn when it goes on. */
export function useLive(search: Search, on: boolean, paused: boolean): Live {
  const [state, set] = useState(NO_EVENT);
  const came = useRef<Message[]>([]);
  const held = useRef(paused);
  held.current = paused;
  const key = JSON.stringify([search, on]);
  useEffect(() => {
    came.current = [];
    set(NO_EVENT);
    if (!on || !search.topic) return;
    const { broker, topic } = search;
    const url = address("/v1/topics/{broker}/{topic}/tail", { path: { broker, topic }, query: wanted(search) });
    const stop = follow(url, {
      open: () => set((old) => ({ ...old, open: true, problem: undefined })),
      problem: (problem, again) => set((old) => ({ ...old, open: false, ended: !again, problem })),
      event: ({ name, data }) => {
        if (name === "message") came.current.push(JSON.parse(data) as Message);
        else if (name === "problem") set((old) => ({ ...old, problem: JSON.parse(data) as Problem }));
        if (came.current.length > MOST) came.current.splice(0, came.current.length - MOST);
      },
    });
    const timer = setInterval(() => {
      if (held.current || !came.current.length) return;
      const fresh = came.current.splice(0).reverse();
      set((old) => ({ ...old, rows: [...fresh, ...old.rows].slice(0, MOST), count: old.count + fresh.length }));
    }, DRAW_MS);
    return () => (stop(), clearInterval(timer));
  }, [key]);
  return state;
}
