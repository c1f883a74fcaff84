// What `skybridge check` says of a subscription, while it is written.
import { useEffect, useState } from "preact/hooks";

import { api } from "../api/client";
import type { Remark } from "../api/types";
import { Icon } from "../ui/icons";
import { sinkKind, type Document } from "./words";

const PAUSE = 350; // milliseconds without a key before it is asked
const PLACE = /^subscriptions\[0\]\.?/;

/** Errors and warnings of the document; `setting` is the path inside it. Undefined until they are known. */
export function useCheck(document: Document): Remark[] | undefined {
  const [remarks, set] = useState<Remark[]>();
  const text = JSON.stringify(document);
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        set(await check(document, control.signal));
      } catch {
        if (!control.signal.aborted) set(undefined); // saving says why
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text]);
  return remarks;
}

/** Held against the brokers, routes and mirrors in force: the same faults as in the file. */
async function check(document: Document, signal: AbortSignal): Promise<Remark[]> {
  const { configuration } = await api.get("/v1/config", { signal });
  const { version, brokers, webhooks, limits, routes, subscriptions } = configuration;
  const mirrors = ((subscriptions ?? []) as Document[]).filter((each) => sinkKind(each) === "topic" && each.id !== document.id);
  const body = { version, brokers, webhooks, limits, routes, subscriptions: [document, ...mirrors] };
  const found = await api.post("/v1/config:check", { body, signal });
  return found.remarks
    .filter((each) => PLACE.test(each.setting))
    .map((each) => ({ ...each, setting: each.setting.replace(PLACE, "") }));
}

/** Those of one setting and of what is inside it. */
export function remarksOf(remarks: Remark[] | undefined, setting: string): Remark[] {
  return (remarks ?? []).filter(({ setting: found }) => found === setting || found.startsWith(`${setting}.`) || found.startsWith(`${setting}[`));
}

export function Remarks({ remarks, quiet }: { remarks: Remark[] | undefined; quiet: boolean }) {
  if (!remarks || quiet) return null;
  if (!remarks.length)
    return (
      <p class="calm" role="status">
        <Icon name="check" /> The check finds no fault.
      </p>
    );
  return (
    <div role="status">
      <ul class="stack tight" aria-label="What the check finds">
        {remarks.map((each) => (
          <li key={each.setting + each.message} class={`needs ${each.level === "error" ? "" : "warn"}`}>
            <Icon name="warning" />
            <div>
              <strong>{each.setting || "The subscription"}</strong> {each.message}
              {each.cure && <p>{each.cure}</p>}
            </div>
          </li>
        ))}
      </ul>
    </div>
  );
}
