// Addresses are the fragment: `#/subscriptions/orders/settings?from=1`. The server sees none of them, so that
// the console works behind any path prefix.
import { useEffect, useState } from "preact/hooks";

export interface Route {
  /** Id of the page: the first segment. */
  page: string;
  /** Decoded segments after it. */
  path: string[];
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/").filter(Boolean).map(decode);
  return { page, path: rest, query: new URLSearchParams(query) };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // a per cent sign that somebody typed
  }
}

type Query = Record<string, string | number | boolean | undefined>;

/** The address of a page, for `href`: `link(["subscriptions", id], { tab: "lag" })`. */
export function link(path: string[], query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== "") search.set(name, String(value));
  const tail = search.size ? `?${search}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${tail}`;
}

/** `replace`: the former address is not kept in the history, as while somebody types into a filter. */
export function go(address: string, replace = false): void {
  if (!replace) {
    location.hash = address;
    return;
  }
  history.replaceState(null, "", address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = () => set(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
