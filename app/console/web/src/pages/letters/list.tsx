// The list of dead letters: by cause and subscription, over time, chosen one by one or as a whole.
import { useState } from "preact/hooks";

import { api } from "../../api/client";
import type { CauseCount, DeadLetter } from "../../api/types";
import { useLoad } from "../../api/use";
import { count, plural } from "../../format";
import { go, link } from "../../router";
import { Allowed, useSession } from "../../session";
import { Cut } from "../../ui/cut";
import { Empty, Loading } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Card, Head } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { Table, type Column } from "../../ui/table";
import { ATTEMPTS, CAUSE, EVENT, NUMBER, SINCE, TYPE } from "../../subscription/letter_columns";
import { Causes } from "./causes";
import { Discard } from "./discard";
import { addressOf, choiceOf, filterOf, isNarrow, NO_FILTER, type Choice, type Filter } from "./filter";
import { useLetters } from "./load";
import { OverTime } from "./over_time";
import { LetterTabs } from "./parked";
import { Redrive } from "./redrive";

const COUNT_EVERY = 5_000; // milliseconds

export function LetterList({ query }: { query: URLSearchParams }) {
  const filter = filterOf(query);
  const [again, set] = useState(0);
  const [asking, ask] = useState(false);
  const key = JSON.stringify(filter);
  const narrow = isNarrow(filter);
  const all = useLoad((signal) => api.get("/v1/dead-letters/count", { signal }), [again], COUNT_EVERY);
  const counted = useLoad(
    async (signal) => (narrow ? await api.get("/v1/dead-letters/count", { query: choiceOf(filter), signal }) : null),
    [key, again],
    COUNT_EVERY,
  );
  const show = (changed: Partial<Filter>) => go(addressOf({ ...filter, ...changed }), true);
  const total = (narrow ? counted.value : all.value)?.total; // one number for one question
  const nothing = all.value?.total === 0 && !asking; // a dialog stays until its result was read
  const problem = counted.problem ?? all.problem;
  return (
    <>
      <Head
        title="Dead letters"
        note="Events that could not be delivered. Each keeps its whole message until it is redriven or discarded."
      />
      <LetterTabs current="letters" />
      {problem && <ProblemBox problem={problem} onRetry={counted.reload} />}
      {nothing ? (
        <Nothing />
      ) : (
        <div class="stack">
          <div class="columns even">
            <Card title="By subscription and cause">
              <Causes counts={all.value?.counts ?? []} filter={filter} onFilter={show} />
            </Card>
            <OverTime filter={filter} onFilter={show} again={again} />
          </div>
          <Rows
            key={key}
            filter={filter}
            counts={all.value?.counts ?? []}
            total={total}
            again={again}
            onFilter={show}
            onDone={() => set(again + 1)}
            onAsk={ask}
          />
        </div>
      )}
    </>
  );
}

function Nothing() {
  return (
    <Empty title="No dead letters" icon="check">
      An event comes here when its target refuses it for good (415 and other 4xx), when its schedule of attempts is used
      up, or when the record is no CloudEvent. It stays until it is redriven or discarded.
    </Empty>
  );
}

interface RowsProps {
  filter: Filter;
  counts: CauseCount[];
  total: number | undefined;
  again: number;
  onFilter: (changed: Partial<Filter>) => void;
  onDone: () => void;
  /** A dialog opens or closes. */
  onAsk: (open: boolean) => void;
}

const CHOSEN_MOST = 500; // ids of one request

function Rows({ filter, counts, total, again, onFilter, onDone, onAsk }: RowsProps) {
  const { may } = useSession();
  const found = useLetters(filter, again);
  const [chosen, choose] = useState<ReadonlySet<number>>(new Set());
  const toggle = (id: number) => {
    const next = new Set(chosen);
    if (!next.delete(id) && next.size < CHOSEN_MOST) next.add(id);
    choose(next);
  };
  const done = () => (choose(new Set()), onDone());
  const choice: Choice = chosen.size ? { ...choiceOf(filter), id: [...chosen] } : choiceOf(filter);
  const size = chosen.size || total || 0;
  const operates = may("operate");
  return (
    <Card
      title={total === undefined ? "Dead letters" : plural(total, "dead letter")}
      actions={
        <>
          <FilterForm filter={filter} onFilter={onFilter} />
          <Allowed scope="operate">
            <Actions choice={choice} size={size} chosen={chosen.size} onDone={done} onAsk={onAsk} />
          </Allowed>
        </>
      }
    >
      {found.problem && <ProblemBox problem={found.problem} onRetry={onDone} />}
      <AllAlike rows={found.rows.filter((each) => chosen.has(each.id))} counts={counts} onFilter={onFilter} />
      {!found.complete && !found.rows.length && !found.problem && <Loading />}
      {found.complete && !found.rows.length && <Empty title="No dead letter matches">Use fewer or other filters.</Empty>}
      {found.rows.length > 0 && (
        <Table
          label="Dead letters"
          columns={columns(operates ? { chosen, toggle } : null)}
          rows={found.rows}
          keyOf={(row) => row.id}
          total={total}
          onEnd={found.more}
          onOpen={(row) => go(link(["letters", String(row.id)]))}
        />
      )}
      {!found.complete && found.rows.length > 0 && (
        <p class="note foot-note">
          {count(found.rows.length)} of {count(total)} loaded; scroll for more.
        </p>
      )}
    </Card>
  );
}

interface AllAlikeProps {
  /** The chosen ones. */
  rows: DeadLetter[];
  counts: CauseCount[];
  onFilter: (changed: Partial<Filter>) => void;
}

/** From some letters of one cause to all of them, also to those that are not loaded. */
function AllAlike({ rows, counts, onFilter }: AllAlikeProps) {
  const [first] = rows;
  const alike = first && rows.every((each) => each.subscription === first.subscription && each.cause === first.cause);
  const all = alike && counts.find((each) => each.subscription === first.subscription && each.cause === first.cause);
  if (!all || all.count <= rows.length) return null;
  const { subscription, cause } = all;
  return (
    <p class="note" role="status">
      {count(rows.length)} chosen.{" "}
      <button class="quiet inline" onClick={() => onFilter({ ...NO_FILTER, subscription, causes: [cause] })}>
        Choose all {count(all.count)} of this cause
      </button>
    </p>
  );
}

interface ActionsProps {
  choice: Choice;
  size: number;
  chosen: number;
  onDone: () => void;
  onAsk: (open: boolean) => void;
}

function Actions({ choice, size, chosen, onDone, onAsk }: ActionsProps) {
  const [open, show] = useState<"redrive" | "discard">();
  const all = `all ${count(size)}${choice.cause?.length === 1 ? " of this cause" : ""}`;
  const what = chosen ? `${count(chosen)} chosen` : all;
  const set = (dialog: "redrive" | "discard" | undefined) => (show(dialog), onAsk(dialog !== undefined));
  const close = (changed: boolean) => (set(undefined), changed && onDone());
  return (
    <>
      <button class="primary" disabled={!size} onClick={() => set("redrive")}>
        <Icon name="replay" /> Redrive {what}
      </button>
      <button disabled={!size} onClick={() => set("discard")}>
        <Icon name="trash" /> Discard {what}
      </button>
      {open === "redrive" && <Redrive choice={choice} onClose={close} />}
      {open === "discard" && <Discard choice={choice} onClose={close} />}
    </>
  );
}

function FilterForm({ filter, onFilter }: { filter: Filter; onFilter: (changed: Partial<Filter>) => void }) {
  const [type, set] = useState(filter.type);
  const submit = (event: Event) => (event.preventDefault(), onFilter({ type }));
  return (
    <>
      {isNarrow(filter) && (
        <button class="quiet" onClick={() => onFilter(NO_FILTER)}>
          <Icon name="close" /> Show all
        </button>
      )}
      <form onSubmit={submit} role="search">
        <input
          type="search"
          aria-label="Type of the event"
          placeholder="Type: com.example.*"
          value={type}
          onInput={(event) => set(event.currentTarget.value.trim())}
        />
      </form>
    </>
  );
}

interface Choosing {
  chosen: ReadonlySet<number>;
  toggle: (id: number) => void;
}

function columns(choosing: Choosing | null): Column<DeadLetter>[] {
  const boxes: Column<DeadLetter> = {
    title: "Chosen",
    width: "5rem",
    phone: "2.75rem",
    unnamed: true,
    cell: (row) => (
      <input
        type="checkbox"
        aria-label={`Choose ${row.id}`}
        checked={choosing?.chosen.has(row.id) ?? false}
        onChange={() => choosing?.toggle(row.id)}
      />
    ),
  };
  return choosing ? [boxes, ...COLUMNS] : COLUMNS;
}

const COLUMNS: Column<DeadLetter>[] = [
  NUMBER,
  SINCE,
  {
    title: "Subscription",
    width: "14%",
    phone: "auto",
    cell: (row) => (
      <>
        <Cut text={row.subscription} />
        <small class="below on-phone">{row.cause}</small>
      </>
    ),
  },
  { ...CAUSE, phone: false },
  TYPE,
  EVENT,
  ATTEMPTS,
];
