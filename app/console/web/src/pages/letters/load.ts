// Pages of dead letters, one after the other as a person scrolls, without their messages.
import { useEffect, useRef, useState } from "preact/hooks";

import { api, problemOf } from "../../api/client";
import type { DeadLetter, Problem } from "../../api/types";
import { choiceOf, type Filter } from "./filter";

const A_PAGE = 1_000;
const FIRST_PAGE = 200; // quickly there

export interface Letters {
  rows: DeadLetter[];
  /** False while there are more. */
  complete: boolean;
  problem: Problem | undefined;
  more: () => void;
}

const NOTHING = { rows: [] as DeadLetter[], complete: false, problem: undefined as Problem | undefined };

export function useLetters(filter: Filter, again: number): Letters {
  const [state, set] = useState(NOTHING);
  const asking = useRef(false);
  const control = useRef(new AbortController());
  const ask = async (rows: DeadLetter[]) => {
    if (asking.current) return;
    asking.current = true;
    const { signal } = control.current;
    try {
      const before = rows[rows.length - 1]?.id ?? null;
      const limit = rows.length ? A_PAGE : FIRST_PAGE;
      const query = { ...choiceOf(filter), limit, before, messages: false };
      const page = await api.get("/v1/dead-letters", { query, signal });
      if (!signal.aborted)
        set({ rows: [...rows, ...page.dead_letters], complete: page.next === null, problem: undefined });
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
    set(NOTHING);
    void ask([]);
    return () => mine.abort();
  }, [JSON.stringify(filter), again]);
  const more = () => {
    if (!state.complete && !state.problem) void ask(state.rows);
  };
  return { ...state, more };
}
