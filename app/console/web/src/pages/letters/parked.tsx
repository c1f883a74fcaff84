// What waits in the store for its turn: by key, by its oldest event.
import { api } from "../../api/client";
import type { ParkedKey } from "../../api/types";
import { useCalm, useLoad } from "../../api/use";
import { count } from "../../format";
import { go, link } from "../../router";
import { Cut } from "../../ui/cut";
import { Empty } from "../../ui/empty";
import { Card, Figure, Head, Tabs } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { Table, type Column } from "../../ui/table";
import { Time } from "../../ui/time";
import { TryNow } from "../../subscription/retry";

const EVERY = 2_000; // milliseconds
const KEYS_EVERY = 10_000;
const CALM = 5_000;
const MOST = 1_000; // keys of one answer

export function LetterTabs({ current }: { current: "letters" | "parked" }) {
  const tabs = [
    { id: "letters", title: "Dead letters", href: link(["letters"]) },
    { id: "parked", title: "Parked", href: link(["letters", "parked"]) },
  ];
  return <Tabs label="What is not delivered" tabs={tabs} current={current} />;
}

export function ParkedKeys({ subscription }: { subscription: string }) {
  const counts = useLoad((signal) => api.get("/v1/parked/count", { signal }), [], EVERY);
  const query = { limit: MOST, subscription: subscription || null };
  const moved = useCalm(JSON.stringify(counts.value), CALM);
  const keys = useLoad((signal) => api.get("/v1/parked/keys", { query, signal }), [subscription, moved], KEYS_EVERY);
  const rows = keys.value?.keys ?? [];
  const problem = keys.problem ?? counts.problem;
  return (
    <>
      <Head
        title="Parked"
        note="Keys whose oldest event waits for its next attempt. Later events of the key wait behind it; other keys continue."
        actions={subscription && rows.length > 0 && <TryNow id={subscription} done={keys.reload} />}
      />
      <LetterTabs current="parked" />
      <div class="stack">
        {problem && <ProblemBox problem={problem} onRetry={keys.reload} />}
        {(counts.value?.counts.length ?? 0) > 0 && (
          <div class="figures">
            {counts.value!.counts.map((each) => (
              <Figure
                key={each.subscription}
                name={each.subscription}
                value={count(each.rows)}
                unit={`of ${count(each.keys)} keys`}
                href={link(["letters", "parked"], subscription === each.subscription ? {} : { subscription: each.subscription })}
              />
            ))}
          </div>
        )}
        {keys.value && rows.length === 0 && (
          <Empty title="Nothing is parked" icon="check">
            After <code>retry.hold</code> failed attempts an event moves into the store. The later events of its key follow
            it there and wait for their turn, so that other keys continue.
          </Empty>
        )}
        {rows.length > 0 && (
          <Card>
            <Table
              label="Parked keys"
              columns={COLUMNS}
              rows={rows}
              keyOf={(row) => `${row.subscription} ${row.topic} ${row.partition} ${row.key} ${row.event.id}`}
              onOpen={(row) => row.event.id && go(eventOf(row))}
            />
          </Card>
        )}
      </div>
    </>
  );
}

function eventOf(row: ParkedKey): string {
  return link(["events", "event"], { id: row.event.id, source: row.event.source });
}

const COLUMNS: Column<ParkedKey>[] = [
  { title: "Key", cell: (row) => <code><Cut text={row.key ?? "not shown"} /></code> },
  { title: "Subscription", cell: (row) => <a href={link(["subscriptions", row.subscription])}>{row.subscription}</a> },
  { title: "Events", width: "6rem", phone: "4rem", number: true, cell: (row) => count(row.rows) },
  { title: "Waits since", width: "9rem", phone: false, cell: (row) => <Time ms={row.at_ms} as="ago" /> },
  { title: "Next attempt", width: "9rem", phone: "6.5rem", cell: (row) => <Time ms={row.due_ms} as="ago" /> },
  { title: "Attempts", width: "6.5rem", phone: false, number: true, cell: (row) => count(row.attempts) },
  { title: "Cause", width: "10rem", phone: false, cell: (row) => <code title={row.detail}>{row.cause || "behind another"}</code> },
  { title: "Oldest event", phone: false, cell: (row) => <a href={eventOf(row)}><Cut text={row.event.id || "no event"} /></a> },
  {
    title: "Now",
    width: "9rem",
    phone: false,
    cell: (row) => row.event.id && <TryNow id={row.subscription} event={row.event.id} />,
  },
];
