// Events of one subscription that wait in the store, and those that were given up.
import { api } from "../api/client";
import type { DeadLetter, ParkedKey } from "../api/types";
import { useCalm, useLoad } from "../api/use";
import { count, NONE } from "../format";
import { link } from "../router";
import { useSession } from "../session";
import { Cut } from "../ui/cut";
import { Empty, Loading } from "../ui/empty";
import { Card } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Table, type Column } from "../ui/table";
import { Time } from "../ui/time";
import { TryNow } from "./retry";

const EVERY = 10_000; // milliseconds
const CALM = 5_000;

/** `rows`: how many there are now. */
export function Parked({ id, rows }: { id: string; rows: number }) {
  const moved = useCalm(rows, CALM);
  const { value, problem, reload } = useLoad(
    (signal) => api.get("/v1/parked/keys", { query: { subscription: id, limit: 1000 }, signal }),
    [id, moved],
    EVERY,
  );
  if (problem) return <ProblemBox problem={problem} onRetry={reload} />;
  if (!value) return <Loading />;
  return (
    <Card>
      {value.keys.length === 0 ? (
        <Empty title="Nothing is parked">
          If an event cannot be delivered for long, the events of its key wait in the store, so that other keys continue.
        </Empty>
      ) : (
        <Table
          label="Parked keys"
          columns={KEYS}
          rows={value.keys}
          keyOf={(each) => `${each.topic}/${each.partition}/${each.key}/${each.at_ms}`}
        />
      )}
    </Card>
  );
}

const KEYS: Column<ParkedKey>[] = [
  { title: "Key", cell: (each) => <Cut text={each.key ?? NONE} /> },
  { title: "Events", number: true, width: "5rem", phone: "4rem", cell: (each) => count(each.rows) },
  { title: "Waits since", width: "10rem", phone: false, cell: (each) => <Time ms={each.at_ms} as="ago" /> },
  { title: "Next attempt", width: "10rem", phone: "7rem", cell: (each) => <Time ms={each.due_ms} as="ago" /> },
  { title: "Attempts", number: true, width: "6rem", phone: false, cell: (each) => each.attempts },
  { title: "Cause", width: "10rem", phone: false, cell: (each) => each.cause },
  { title: "Detail", phone: false, cell: (each) => <span title={each.detail}>{each.detail}</span> },
  {
    title: "Now",
    width: "9rem",
    phone: false,
    cell: (each) => each.event.id && <TryNow id={each.subscription} event={each.event.id} />,
  },
];

/** `count`: how many there are now. */
export function Letters({ id, count }: { id: string; count: number }) {
  const { may } = useSession();
  const moved = useCalm(count, CALM);
  const { value, problem, reload } = useLoad(
    (signal) => api.get("/v1/dead-letters", { query: { subscription: id, limit: 200 }, signal }),
    [id, moved],
    EVERY,
  );
  if (problem) return <ProblemBox problem={problem} onRetry={reload} />;
  if (!value) return <Loading />;
  const letters = value.dead_letters;
  return (
    <Card
      title={letters.length ? "Newest dead letters" : undefined}
      actions={letters.length ? <a href={link(["letters"], { subscription: id })}>{may("operate") ? "Look, redrive or discard" : "All of them"}</a> : undefined}
    >
      {letters.length === 0 ? (
        <Empty title="No dead letter">
          An event becomes one after the last retry, or when the target says that it never takes it.
        </Empty>
      ) : (
        <Table label="Dead letters" columns={LETTERS} rows={letters} keyOf={(each) => each.id} />
      )}
    </Card>
  );
}

const LETTERS: Column<DeadLetter>[] = [
  {
    title: "Number",
    width: "6rem",
    phone: "4.5rem",
    cell: (each) => <a href={link(["letters", String(each.id)])}>{each.id}</a>,
  },
  { title: "Since", width: "10rem", phone: "5.75rem", cell: (each) => <Time ms={each.at_ms} /> },
  { title: "Cause", width: "11rem", phone: "7rem", cell: (each) => each.cause },
  { title: "Status", number: true, width: "5rem", phone: false, cell: (each) => each.status ?? NONE },
  { title: "Attempts", number: true, width: "6rem", phone: false, cell: (each) => each.attempts },
  { title: "Type", cell: (each) => String(each.message?.event?.type ?? NONE) },
  { title: "Detail", phone: false, cell: (each) => <span title={each.detail}>{each.detail}</span> },
];
