// The event that stands there before somebody pastes one: the first route takes it, if its filters are simple.
import type { Json } from "../../api/types";
import { indented } from "../../ui/code";

type Members = { [name: string]: Json };

const SAMPLE = { specversion: "1.0", id: "1", source: "/shop", type: "com.example.order.created" };
const REST = { subject: "order-7", partitionkey: "order-7", data: { total: 12 } };

/** `configuration`: in force. `route`: the one that is asked for, else the first. */
export function sampleFor(configuration: Members | undefined, route: string): string {
  const routes = (configuration?.routes ?? []) as Members[];
  const meant = routes.find((each) => !route || each.name === route);
  return indented(JSON.stringify({ ...SAMPLE, ...demandedBy(meant?.filters), ...REST }));
}

/** What `exact`, `prefix` and `suffix` demand of the attributes. */
function demandedBy(filters: Json | undefined): Record<string, string> {
  const wanted: Record<string, string> = {};
  for (const filter of (filters ?? []) as Members[])
    for (const [dialect, values] of Object.entries(filter))
      for (const [name, value] of Object.entries((values ?? {}) as Record<string, string>)) {
        if (dialect === "exact") wanted[name] = value;
        if (dialect === "prefix") wanted[name] = `${value}${/[./-]$/.test(value) ? "example" : ".example"}`;
        if (dialect === "suffix") wanted[name] = `com.example${value.startsWith(".") ? "" : "."}${value}`;
      }
  return wanted;
}
