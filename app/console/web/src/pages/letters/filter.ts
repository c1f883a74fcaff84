// Which dead letters are meant: by the address of the page, by the query of a list, by the body of an order.
import { link } from "../../router";

export interface Filter {
  subscription: string;
  causes: string[];
  source: string;
  type: string;
  /** Milliseconds since the epoch. */
  since: number | undefined;
  until: number | undefined;
}

export const NO_FILTER: Filter = { subscription: "", causes: [], source: "", type: "", since: undefined, until: undefined };

export function filterOf(query: URLSearchParams): Filter {
  const number = (name: string) => (query.get(name) ? Number(query.get(name)) : undefined);
  return {
    subscription: query.get("subscription") ?? "",
    causes: (query.get("cause") ?? "").split(",").filter(Boolean),
    source: query.get("source") ?? "",
    type: query.get("type") ?? "",
    since: number("since"),
    until: number("until"),
  };
}

export function addressOf(filter: Filter): string {
  const { causes, ...rest } = filter;
  return link(["letters"], { ...rest, cause: causes.join(",") });
}

/** As a query and as a body take it: what is empty is left out. */
export function choiceOf(filter: Filter) {
  return {
    ...(filter.subscription && { subscription: filter.subscription }),
    ...(filter.causes.length && { cause: filter.causes }),
    ...(filter.source && { source: filter.source }),
    ...(filter.type && { type: filter.type }),
    ...(filter.since !== undefined && { since: filter.since }),
    ...(filter.until !== undefined && { until: filter.until }),
  };
}

export type Choice = ReturnType<typeof choiceOf> & { id?: number[] };

export function isNarrow(filter: Filter): boolean {
  return Object.keys(choiceOf(filter)).length > 0;
}
