// Pages of dead letters, one after the other as a person scrolls, without their messages.
import { api } from "../../api/client";
import type { DeadLetter } from "../../api/types";
import { usePages, type Pages } from "../../api/use";
import { choiceOf, type Filter } from "./filter";

const A_PAGE = 1_000;
const FIRST_PAGE = 200; // quickly there

export function useLetters(filter: Filter, again: number): Pages<DeadLetter> {
  const load = async (last: DeadLetter | undefined, signal: AbortSignal) => {
    const limit = last ? A_PAGE : FIRST_PAGE;
    const query = { ...choiceOf(filter), limit, before: last?.id ?? null, messages: false };
    const page = await api.get("/v1/dead-letters", { query, signal });
    return { rows: page.dead_letters, complete: page.next === null };
  };
  return usePages(load, [JSON.stringify(filter), again]);
}
