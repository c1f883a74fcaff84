// Audit: who changed what, who looked at event data, what was refused.
import { useState } from "preact/hooks";

import { api } from "../api/client";
import type { AuditEntry } from "../api/types";
import { usePages, type Pages } from "../api/use";
import { plural } from "../format";
import { go, link } from "../router";
import { Badge, type Tone } from "../ui/badge";
import { Cut } from "../ui/cut";
import { Empty } from "../ui/empty";
import { Icon } from "../ui/icons";
import { Card, Head } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Table, type Column } from "../ui/table";
import { Time } from "../ui/time";
import type { Page, PageProps } from "./page";

const A_PAGE = 200;
const NAMES = ["kind", "who", "operation", "target"] as const;
type Choice = Record<(typeof NAMES)[number], string>;
type Kind = AuditEntry["kind"];

function Audit({ query }: PageProps) {
  const choice = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""])) as Choice;
  const [again, set] = useState(0);
  const found = useEntries(choice, again);
  const show = (changed: Partial<Choice>) => go(link(["audit"], { ...choice, ...changed }), true);
  return (
    <>
      <Head
        title="Audit"
        note="Changes, logins, reads of event data and refused requests. No entry contains event data or a secret."
        actions={
          <button onClick={() => set(again + 1)}>
            <Icon name="replay" /> Refresh
          </button>
        }
      />
      <div class="stack">
        <Card>
          <Form key={JSON.stringify(choice)} choice={choice} onChoice={show} />
        </Card>
        {found.problem && <ProblemBox problem={found.problem} onRetry={() => set(again + 1)} />}
        {found.complete && !found.rows.length && (
          <Empty title="No entry" icon="audit">
            Pause a subscription, redrive a dead letter or look at an event: each leaves an entry here.
          </Empty>
        )}
        {found.rows.length > 0 && (
          <Card>
            <Table label="Audit" columns={columns(show)} rows={found.rows} keyOf={(row) => row.id} onEnd={found.more} />
          </Card>
        )}
      </div>
    </>
  );
}

function Form({ choice, onChoice }: { choice: Choice; onChoice: (choice: Partial<Choice>) => void }) {
  const [form, set] = useState(choice);
  const typed = (name: keyof Choice) => (event: { currentTarget: HTMLInputElement }) =>
    set({ ...form, [name]: event.currentTarget.value.trim() });
  const submit = (event: Event) => (event.preventDefault(), onChoice(form));
  return (
    <form class="search" onSubmit={submit} role="search">
      <label class="field">
        <span>Kind</span>
        <select value={form.kind} onChange={(event) => onChoice({ ...form, kind: event.currentTarget.value })}>
          <option value="">all</option>
          <option value="change">changes</option>
          <option value="login">logins</option>
          <option value="look">reads of event data</option>
          <option value="refusal">refusals</option>
        </select>
      </label>
      <label class="field">
        <span>Token</span>
        <input type="search" value={form.who} onInput={typed("who")} placeholder="ana" />
      </label>
      <label class="field">
        <span>Operation</span>
        <input value={form.operation} onInput={typed("operation")} placeholder="pause_subscription" />
      </label>
      <label class="field">
        <span>Object</span>
        <input value={form.target} onInput={typed("target")} placeholder="billing" />
      </label>
      <button class="primary" type="submit">
        <Icon name="explain" /> Search
      </button>
    </form>
  );
}

function useEntries(choice: Choice, again: number): Pages<AuditEntry> {
  const load = async (last: AuditEntry | undefined, signal: AbortSignal) => {
    const { kind, ...rest } = choice;
    const query = { ...rest, kind: (kind || null) as Kind | null, before: last?.id ?? null, limit: A_PAGE };
    const page = await api.get("/v1/audit", { query, signal });
    return { rows: page.entries, complete: page.next === null };
  };
  return usePages(load, [JSON.stringify(choice), again]);
}

const TONES: Record<Kind, Tone> = { change: "busy", login: "quiet", look: "quiet", refusal: "bad" };
const WORDS: Record<Kind, string> = { change: "change", login: "login", look: "read", refusal: "refusal" };

function columns(show: (choice: Partial<Choice>) => void): Column<AuditEntry>[] {
  const by = (name: keyof Choice, value: string) => (
    <button class="quiet inline" onClick={() => show({ [name]: value })} aria-label={`Only ${value}`} title={`Only ${value}`}>
      <Cut text={value} />
    </button>
  );
  return [
    { title: "When", width: "11.5rem", phone: "5.75rem", cell: (row) => <When entry={row} /> },
    { title: "Kind", width: "6.25rem", phone: false, cell: (row) => <Badge tone={TONES[row.kind]}>{WORDS[row.kind]}</Badge> },
    { title: "Token", width: "7rem", phone: "5.75rem", cell: (row) => by("who", row.who) },
    { title: "Address", width: "7.5rem", spare: true, phone: false, cell: (row) => row.address },
    {
      title: "Operation",
      width: "12rem",
      phone: "auto",
      cell: (row) => (
        <>
          {by("operation", row.operation)}
          {row.target && <small class="below on-phone">{row.target}</small>}
        </>
      ),
    },
    { title: "Object", width: "12%", phone: false, cell: (row) => (row.target ? by("target", row.target) : "") },
    { title: "Status", width: "5.25rem", phone: "4.5rem", cell: (row) => <Answer status={row.status} /> },
    { title: "Detail", phone: false, cell: (row) => <span title={row.detail}>{row.detail}</span> },
  ];
}

/** Of several requests alike: the last one, how many there were, and since when. */
function When({ entry }: { entry: AuditEntry }) {
  if (entry.last_ms === null) return <Time ms={entry.at_ms} as="row" />;
  return (
    <>
      <Time ms={entry.last_ms} />
      <small class="below">
        {plural(entry.count, "time")}
        <span class="not-on-phone">
          {" "}
          since <Time ms={entry.at_ms} />
        </span>
      </small>
    </>
  );
}

function Answer({ status }: { status: number | null }) {
  if (status === null) return <span title="The process or the connection ended first">no answer</span>;
  return <Badge tone={status < 400 ? "ok" : "bad"}>{status}</Badge>;
}

export const audit: Page = {
  id: "audit",
  title: "Audit",
  key: "a",
  icon: "audit",
  group: "Service",
  scope: "read",
  wide: true,
  component: Audit,
};
