// Events of one subscription that wait in the store, and those that were given up.
import { api } from "../api/client";
import type { DeadLetter } from "../api/types";
import { useCalm, useLoad } from "../api/use";
import { link } from "../router";
import { useSession } from "../session";
import { Empty, Loading } from "../ui/empty";
import { Card } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Table, type Column } from "../ui/table";
import { ATTEMPTS, CAUSE, EVENT, EventId, NUMBER, SINCE, TYPE } from "./letter_columns";
import { ParkedTable } from "./parked_keys";

const EVERY = 10_000; // milliseconds
const CALM = 5_000;

/** `rows`: how many there are now; null if unknown. */
export function Parked({ id, rows }: { id: string; rows: number | null }) {
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
        <ParkedTable rows={value.keys} />
      )}
    </Card>
  );
}

/** `count`: how many there are now; null if unknown. */
export function Letters({ id, count }: { id: string; count: number | null }) {
  const { may } = useSession();
  const moved = useCalm(count, CALM);
  const { value, problem, reload } = useLoad(
    (signal) => api.get("/v1/dead-letters", { query: { subscription: id, limit: 200, messages: false }, signal }),
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
  NUMBER,
  { ...SINCE, phone: "6rem" },
  { ...EVENT, cell: (each) => <EventId letter={each} below={each.cause} /> },
  TYPE,
  { ...CAUSE, phone: false },
  ATTEMPTS,
  { title: "Detail", phone: false, spare: true, cell: (each) => <span title={each.detail}>{each.detail}</span> },
];
