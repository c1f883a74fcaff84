// The table of parked keys, of one subscription or of all: each by its oldest event.
import type { ParkedKey } from "../api/types";
import { count } from "../format";
import { go, link } from "../router";
import { useSession } from "../session";
import { Cut } from "../ui/cut";
import { Table, type Column } from "../ui/table";
import { Time } from "../ui/time";
import { TryNow } from "./retry";

interface Props {
  rows: ParkedKey[];
  /** True if the keys are those of several subscriptions. */
  named?: boolean;
}

export function ParkedTable({ rows, named = false }: Props) {
  const { may } = useSession();
  return (
    <Table
      label="Parked keys"
      columns={columns(named, may("data"), may("operate"))}
      rows={rows}
      keyOf={(row) => `${row.subscription} ${row.topic} ${row.partition} ${row.key} ${row.event.id} ${row.at_ms}`}
      onOpen={(row) => row.event.id && go(eventOf(row))}
    />
  );
}

function eventOf(row: ParkedKey): string {
  return link(["events", "event"], { id: row.event.id, source: row.event.source });
}

function Event({ row }: { row: ParkedKey }) {
  return row.event.id ? (
    <a href={eventOf(row)}>
      <Cut text={row.event.id} />
    </a>
  ) : (
    <>no event</>
  );
}

/** `keys`: the session may see keys, so one that is missing is none. */
function columns(named: boolean, keys: boolean, operates: boolean): Column<ParkedKey>[] {
  const all: (Column<ParkedKey> | false)[] = [
    {
      title: "Key",
      ...(named ? { width: "12%", phone: "auto" } : {}),
      cell: (row) => (
        <>
          {row.key === null ? (keys ? "none" : "not shown") : <code><Cut text={row.key} /></code>}
          <span class="below on-phone">
            <Event row={row} />
          </span>
        </>
      ),
    },
    named && {
      title: "Subscription",
      width: "12%",
      phone: "auto",
      cell: (row) => (
        <a href={link(["subscriptions", row.subscription])}>
          <Cut text={row.subscription} />
        </a>
      ),
    },
    { title: "Oldest event", phone: false, cell: (row) => <Event row={row} /> },
    { title: "Events", width: "4.25rem", phone: "3.75rem", number: true, cell: (row) => count(row.rows) },
    { title: "Waits since", width: named ? "8.75rem" : "9.5rem", spare: named, phone: false, cell: (row) => <Time ms={row.at_ms} as="ago" /> },
    { title: "Next attempt", width: "6.5rem", phone: "6.5rem", cell: (row) => <Time ms={row.due_ms} as="due" /> },
    { title: "Attempts", width: "5.25rem", spare: named, phone: false, number: true, cell: (row) => count(row.attempts) },
    {
      title: "Cause",
      width: "7.5rem",
      phone: false,
      cell: (row) => <code title={row.detail || undefined}>{row.cause || "behind another"}</code>,
    },
    operates && {
      title: "Now",
      width: "8.5rem",
      phone: false,
      cell: (row) => row.event.id && <TryNow id={row.subscription} event={row.event.id} />,
    },
  ];
  return all.filter((each) => each !== false);
}
