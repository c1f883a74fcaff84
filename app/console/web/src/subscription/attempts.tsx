import { useState } from "preact/hooks";

import { api } from "../api/client";
import type { Attempt, SubscriptionHealth } from "../api/types";
import { useCalm, useLoad } from "../api/use";
import { milliseconds, NONE } from "../format";
import { link } from "../router";
import { Badge, toneOf } from "../ui/badge";
import { Cut, TYPE_TAIL } from "../ui/cut";
import { Empty, Loading } from "../ui/empty";
import { Card } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Table, type Column } from "../ui/table";
import { Time } from "../ui/time";

const EVERY = 10_000; // milliseconds
const CALM = 5_000;
const OUTCOMES = ["delivered", "retry", "unsent", "dead-letter", "disable"] as const;
type Outcome = (typeof OUTCOMES)[number];

/** Asked again when the counters of the subscription move. */
export function useAttempts(health: SubscriptionHealth, limit: number, outcome?: Outcome) {
  const { id } = health;
  const moved = useCalm(JSON.stringify([health.answers, health.delivered]), CALM);
  const query = { subscription: id, limit, ...(outcome ? { outcome } : {}) };
  return useLoad((signal) => api.get("/v1/attempts", { query, signal }), [id, limit, outcome, moved], EVERY);
}

/** All that are remembered, with a filter by outcome. */
export function Attempts({ health }: { health: SubscriptionHealth }) {
  const [outcome, set] = useState<Outcome | "">("");
  const { value, problem, reload } = useAttempts(health, 1000, outcome || undefined);
  return (
    <div class="stack">
      <div class="filters">
        <select
          aria-label="Outcome"
          value={outcome}
          onChange={(event) => set(event.currentTarget.value as Outcome | "")}
        >
          <option value="">Every outcome</option>
          {OUTCOMES.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <span class="note">The newest 1,000.</span>
      </div>
      {problem && <ProblemBox problem={problem} onRetry={reload} />}
      <Card>
        {!value && !problem && <Loading />}
        {value?.attempts.length === 0 && (
          <Empty title="No attempt">The store has none{outcome && ` with the outcome ${outcome}`}.</Empty>
        )}
        {value && value.attempts.length > 0 && <AttemptTable attempts={value.attempts} />}
      </Card>
    </div>
  );
}

export function AttemptTable({ attempts }: { attempts: Attempt[] }) {
  return <Table label="Attempts" columns={COLUMNS} rows={attempts} keyOf={keyOf} />;
}

function keyOf(each: Attempt): string {
  return `${each.topic}/${each.partition}/${each.position}/${each.number}/${each.started_ms}`;
}

const COLUMNS: Column<Attempt>[] = [
  { title: "When", width: "7rem", phone: "5.75rem", cell: (each) => <Time ms={each.started_ms} as="row" /> },
  {
    title: "Event",
    cell: (each) => (
      <a href={link(["events", "event"], { id: each.event.id ?? undefined, source: each.event.source ?? undefined })}>
        <Cut text={each.event.id ?? NONE} />
      </a>
    ),
  },
  { title: "Type", spare: true, phone: false, cell: (each) => <Cut text={each.event.type ?? NONE} tail={TYPE_TAIL} /> },
  { title: "Try", number: true, width: "3.5rem", phone: false, cell: (each) => each.number },
  {
    title: "Outcome",
    width: "7.75rem",
    phone: "7.25rem",
    cell: (each) => <Badge tone={toneOf(each.outcome)}>{each.outcome}</Badge>,
  },
  { title: "Status", number: true, width: "4.5rem", phone: "3.75rem", cell: (each) => each.status ?? NONE },
  { title: "Took", number: true, width: "5.5rem", phone: false, cell: (each) => milliseconds(each.duration_ms) },
  { title: "Detail", width: "20%", phone: false, cell: (each) => <span title={each.detail}>{each.detail}</span> },
];
