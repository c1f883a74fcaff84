import { useState } from "preact/hooks";

import { api } from "../api/client";
import type { ListedSubscription, Status, SubscriptionHealth } from "../api/types";
import { useLoad } from "../api/use";
import { count, duration, rate } from "../format";
import { go, link } from "../router";
import { delivered, rateNow } from "../samples";
import { Allowed } from "../session";
import { useStatus } from "../status";
import { Detail } from "../subscription/detail";
import { Edit } from "../subscription/edit";
import { State } from "../subscription/state";
import { lettersIn, oldestOf, parkedIn, sinkOf, sourceOf } from "../subscription/words";
import { Code } from "../ui/code";
import { Cut, CutAddress } from "../ui/cut";
import { Empty, Loading } from "../ui/empty";
import { Icon } from "../ui/icons";
import { Head } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Table, type Column } from "../ui/table";
import { badgeOf } from "../verdicts";
import type { Page, PageProps } from "./page";

const EVERY = 2500; // milliseconds

function Subscriptions({ path, query }: PageProps) {
  const [id, part] = path;
  if (query.has("make")) return <Edit key="make" />;
  if (id && part === "change") return <Edit key={id} id={id} />;
  return id ? <Detail key={id} id={id} part={part ?? ""} /> : <List query={query} />;
}

interface Row {
  listed: ListedSubscription;
  health: SubscriptionHealth;
  rate: number | null;
}

function List({ query }: { query: URLSearchParams }) {
  const { samples } = useStatus();
  const { value, problem, loading, reload } = useLoad(
    (signal) => api.get("/v1/subscriptions", { signal }),
    [],
    EVERY,
  );
  const [text, setText] = useState(query.get("q") ?? "");
  const state = query.get("state") ?? "";
  const show = (q: string, of: string) => go(link(["subscriptions"], { q, state: of }), true);
  const rows = (value ?? [])
    .filter((each) => !state || badgeOf(each.health)[0] === state)
    .filter((each) => matches(each, text))
    .map((listed) => ({
      listed,
      health: listed.health,
      rate: rateNow(samples, delivered(listed.id)),
    }));
  const states = [...new Set((value ?? []).map((each) => badgeOf(each.health)[0]).concat(state || []))].sort();
  return (
    <div class="stack">
      <Head
        title="Subscriptions"
        note="Each reads topics and delivers their events, in order per key, until the target takes them."
        actions={
          <Allowed scope="configure">
            <a class="button primary" href={link(["subscriptions"], { make: 1 })}>
              <Icon name="plus" /> New subscription
            </a>
          </Allowed>
        }
      />
      {problem && <ProblemBox problem={problem} onRetry={reload} />}
      {loading && !value && <Loading />}
      {value?.length === 0 && <None />}
      {value && value.length > 0 && (
        <>
          <div class="filters" role="search">
            <input
              type="search"
              aria-label="Search subscriptions by name, topic or target"
              placeholder="Name, topic or target"
              title="Key: /"
              value={text}
              onInput={(event) => {
                setText(event.currentTarget.value);
                show(event.currentTarget.value, state);
              }}
            />
            <select aria-label="State" value={state} onChange={(event) => show(text, event.currentTarget.value)}>
              <option value="">Every state</option>
              {states.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
            <span class="note">{count(rows.length)} of {count(value.length)}</span>
          </div>
          <div class="card">
            <Table
              label="Subscriptions"
              columns={COLUMNS}
              rows={rows}
              keyOf={(row) => row.listed.id}
              onOpen={(row) => go(link(["subscriptions", row.listed.id]))}
            />
            {rows.length === 0 && <Empty title="No subscription matches">Change the words or the state above.</Empty>}
          </div>
        </>
      )}
    </div>
  );
}

function matches(each: ListedSubscription, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = `${each.id} ${sourceOf(each.document)} ${sinkOf(each.document)}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

const COLUMNS: Column<Row>[] = [
  {
    title: "Name",
    width: "16%",
    phone: "34%",
    cell: ({ listed }) => (
      <a href={link(["subscriptions", listed.id])}>
        <Cut text={listed.id} />
      </a>
    ),
  },
  {
    title: "State",
    width: "9rem",
    phone: "7.5rem",
    cell: ({ health }) => (
      <span title={health.cause || undefined}>
        <State health={health} />
      </span>
    ),
  },
  { title: "From", width: "13%", spare: true, phone: false, cell: ({ listed }) => <Cut text={sourceOf(listed.document)} /> },
  { title: "To", phone: false, cell: ({ listed }) => <CutAddress address={sinkOf(listed.document)} /> },
  { title: "Out /s", number: true, width: "4.25rem", phone: false, cell: (row) => rate(row.rate) },
  { title: "Lag", number: true, width: "4.5rem", phone: "3.75rem", cell: ({ health }) => count(health.lag) },
  { title: "Oldest", spare: true, phone: false, number: true, width: "5.25rem", cell: ({ health }) => duration(oldestOf(health)) },
  { title: "Parked", number: true, width: "4.5rem", phone: "4rem", cell: ({ health }) => coloured(parkedIn(health), "warn") },
  {
    title: "Dead letters",
    number: true,
    width: "6.75rem",
    phone: false,
    cell: ({ health }) => coloured(lettersIn(health), "bad"),
  },
];

function coloured(value: number | null, tone: string) {
  return <span class={value ? `${tone}-text` : undefined}>{count(value)}</span>;
}

function None() {
  const { value: status } = useStatus();
  return (
    <div class="card">
      <Empty title="No subscription yet" icon="subscriptions">
        <p>
          A subscription reads topics and sends their events to a webhook or to another topic, or keeps them for
          consumers that pull them. After a restart it continues where it stopped.
        </p>
        <Allowed scope="configure">
          <p>
            <a class="button primary" href={link(["subscriptions"], { make: 1 })}>
              <Icon name="plus" /> Create the first one
            </a>
          </p>
        </Allowed>
        <Code label="The same in the configuration file" text={exampleOf(status)} />
      </Empty>
    </div>
  );
}

/** Of the topic of a route, so that it can be pasted as it is. */
function exampleOf(status: Status | undefined): string {
  const target = status?.routes.flatMap((each) => each.to).find((each) => !each.topic.includes("{"));
  const broker = target?.broker ?? Object.keys(status?.brokers ?? {})[0] ?? "log";
  return `subscriptions:
  - id: billing
    source: {broker: ${broker}, topics: [${target?.topic ?? "orders"}]}
    sink: https://billing.example/events
`;
}

export const subscriptions: Page = {
  id: "subscriptions",
  title: "Subscriptions",
  key: "s",
  icon: "subscriptions",
  group: "Work",
  scope: "read",
  component: Subscriptions,
};
