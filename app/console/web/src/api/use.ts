// Hooks around the client.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { problemOf } from "./client";
import type { Problem } from "./types";

const AT_LEAST_MS = 1000; // what a counter tells, the store has a moment later

export interface Loaded<T> {
  /** The last good answer; it stays while a newer one fails. */
  value: T | undefined;
  problem: Problem | undefined;
  loading: boolean;
  reload: () => void;
}

/** Loads when `keys` change, and every `every` milliseconds while the page is visible. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, keys: unknown[], every = 0): Loaded<T> {
  const [state, set] = useState<Omit<Loaded<T>, "reload">>({ value: undefined, problem: undefined, loading: true });
  const latest = useRef(load);
  latest.current = load;
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const ask = async () => {
      clearTimeout(timer);
      try {
        const value = await latest.current(control.signal);
        if (!control.signal.aborted) set({ value, problem: undefined, loading: false });
      } catch (error) {
        if (!control.signal.aborted) set((old) => ({ ...old, problem: problemOf(error), loading: false }));
      }
      if (every && !control.signal.aborted) timer = setTimeout(next, every) as unknown as number;
    };
    const next = () => {
      if (document.hidden) document.addEventListener("visibilitychange", next, { once: true });
      else void ask();
    };
    again.current = () => void ask();
    set((old) => ({ ...old, loading: true }));
    void ask();
    return () => {
      control.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", next);
    };
  }, [...keys, every]);
  const reload = useCallback(() => again.current(), []);
  return { ...state, reload };
}

export interface Pages<Row> {
  rows: Row[];
  /** False while there are more. */
  complete: boolean;
  problem: Problem | undefined;
  more: () => void;
}

/** Page after page, as a person scrolls; from the beginning when `keys` change. `load` gets the last row so far. */
export function usePages<Row>(
  load: (last: Row | undefined, signal: AbortSignal) => Promise<{ rows: Row[]; complete: boolean }>,
  keys: unknown[],
): Pages<Row> {
  const nothing = { rows: [] as Row[], complete: false, problem: undefined as Problem | undefined };
  const [state, set] = useState(nothing);
  const asking = useRef(false);
  const control = useRef(new AbortController());
  const ask = async (rows: Row[]) => {
    if (asking.current) return;
    asking.current = true;
    const { signal } = control.current;
    try {
      const page = await load(rows[rows.length - 1], signal);
      if (!signal.aborted) set({ rows: [...rows, ...page.rows], complete: page.complete, problem: undefined });
    } catch (error) {
      if (!signal.aborted) set({ rows, complete: false, problem: problemOf(error) });
    } finally {
      if (!signal.aborted) asking.current = false;
    }
  };
  useEffect(() => {
    control.current = new AbortController();
    const mine = control.current;
    asking.current = false;
    set(nothing);
    void ask([]);
    return () => mine.abort();
  }, keys);
  return { ...state, more: () => !state.complete && !state.problem && void ask(state.rows) };
}

/** The value as it was at most `ms` ago: for answers that show event data, each of which the audit notes. */
export function useCalm<T>(value: T, ms: number): T {
  const [shown, set] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    if (value === shown) return;
    const left = last.current + ms - Date.now();
    const timer = setTimeout(() => ((last.current = Date.now()), set(value)), Math.max(AT_LEAST_MS, left));
    return () => clearTimeout(timer);
  }, [value, shown, ms]);
  return shown;
}

interface Action<A extends unknown[]> {
  run: (...args: A) => Promise<boolean>;
  busy: boolean;
  problem: Problem | undefined;
  clear: () => void;
}

/** An operation that a button starts. `run` says whether it succeeded; its problem is kept to be shown. */
export function useAction<A extends unknown[]>(act: (...args: A) => Promise<unknown>): Action<A> {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const run = async (...args: A) => {
    setBusy(true);
    setProblem(undefined);
    try {
      await act(...args);
      return true;
    } catch (error) {
      setProblem(problemOf(error));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { run, busy, problem, clear: () => setProblem(undefined) };
}
