// Search of records by attributes and time, and the live tail of a topic.
import { useState } from "preact/hooks";

import { api } from "../../api/client";
import type { Message, RouteView, Topic } from "../../api/types";
import { useLoad } from "../../api/use";
import { capital, count, plural } from "../../format";
import { attribute, keyOf, nameOf, placeOf } from "../../messages";
import { go, link } from "../../router";
import { useStatus } from "../../status";
import { Badge } from "../../ui/badge";
import { Cut, TYPE_TAIL } from "../../ui/cut";
import { Empty, Loading } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Card, Head } from "../../ui/page";
import { ProblemBox } from "../../ui/problem";
import { Table, type Column } from "../../ui/table";
import { Time } from "../../ui/time";
import { awayOf, choicesOf } from "./topics";
import { SearchForm } from "./form";
import { MOST, searchOf, useLive, useSearch, type Live, type Search } from "./search";

export function EventList({ query }: { query: URLSearchParams }) {
  const { value: status } = useStatus();
  const away = awayOf(status);
  const topics = useLoad((signal) => api.get("/v1/topics", { signal }), [[...away.keys()].join()]);
  const listed = useLoad((signal) => api.get("/v1/subscriptions", { signal }), []);
  const choices = choicesOf(topics.value ?? [], status, listed.value ?? []);
  const asked = searchOf(query);
  const search = asked.topic ? asked : { ...asked, ...firstOf(topics.value, status?.routes ?? []) };
  const show = (changed: Partial<Search>) => go(addressOf({ ...search, ...changed }), true);
  return (
    <>
      <Head
        title="Events"
        note="Find one event by its id, or search the records of a topic. A search moves no subscription."
        actions={search.topic && <LiveButton live={search.live} onClick={() => show({ live: !search.live })} />}
      />
      <div class="stack">
        {topics.problem && !away.size && <ProblemBox problem={topics.problem} onRetry={topics.reload} />}
        {[...away].map(([broker, cause]) => (
          <Away key={broker} broker={broker} cause={cause} />
        ))}
        <Card>
          <SearchForm search={search} topics={choices} onSearch={show} />
        </Card>
        {!topics.value && topics.loading && <Loading what="Asking the brokers for their topics" />}
        {topics.value && !search.topic && <NoTopic />}
        {search.topic && (search.live ? <Tail search={search} /> : <Found search={search} />)}
      </div>
    </>
  );
}

function Away({ broker, cause }: { broker: string; cause: string }) {
  return (
    <div class="needs">
      <Icon name="warning" />
      <div>
        <strong>Broker {broker} does not answer</strong>
        <p>{capital(cause)}</p>
        <p>The topics of the configuration stay in the list, but their events cannot be read now.</p>
      </div>
    </div>
  );
}

/** The topic of the first route that has one, or else any. */
function firstOf(topics: Topic[] | undefined, routes: RouteView[]): { broker: string; topic: string } {
  const targets = routes.flatMap((each) => each.to);
  const there = (broker: string, topic: string) => topics?.some((each) => each.broker === broker && each.name === topic);
  const target = targets.find((each) => there(each.broker, each.topic));
  if (target) return { broker: target.broker, topic: target.topic };
  const [first] = topics ?? [];
  return { broker: first?.broker ?? "", topic: first?.name ?? "" };
}

export function addressOf(search: Search): string {
  return link(["events"], { ...search, live: search.live ? 1 : undefined });
}

function LiveButton({ live, onClick }: { live: boolean; onClick: () => void }) {
  return (
    <button onClick={onClick} aria-pressed={live}>
      <Icon name={live ? "close" : "play"} />
      {live ? "Stop the live tail" : "Live tail"}
    </button>
  );
}

function NoTopic() {
  return (
    <Empty title="No topic yet" icon="events">
      A topic appears with its first event. Send one: <code>skybridge send --type com.example.hello</code>
    </Empty>
  );
}

function Found({ search }: { search: Search }) {
  const [again, set] = useState(0);
  const found = useSearch(search, again);
  const { rows, busy, lookedAt } = found;
  const rest = found.next !== null && !busy && !found.problem;
  return (
    <Card
      title={`${search.broker}/${search.topic}`}
      actions={
        <>
          <span class="note" role="status">
            {busy ? "Searching … " : ""}
            {(lookedAt > 0 || !found.problem) && `${plural(rows.length, "event")} in ${plural(lookedAt, "record")}`}
            {rest && "; there are more"}
          </span>
          {rest && rows.length < MOST && <button onClick={found.more}>Load more</button>}
          <button class="quiet" onClick={() => set(again + 1)}>
            <Icon name="replay" /> Refresh
          </button>
        </>
      }
    >
      {found.problem && <ProblemBox problem={found.problem} onRetry={() => set(again + 1)} />}
      {rows.length > 0 && <Rows label="Events found" rows={rows} broker={search.broker} onEnd={found.more} />}
      {rows.length === 0 && !busy && !found.problem && (
        <Empty title="No event matches" icon="explain">
          Search from an earlier time, with fewer attributes, or with a prefix such as <code>com.example.*</code>. Records
          that retention has removed cannot be found.
        </Empty>
      )}
      {rows.length === 0 && busy && <Loading what={`Looking through ${search.topic}`} />}
    </Card>
  );
}

function Tail({ search }: { search: Search }) {
  const [paused, set] = useState(false);
  const live = useLive(search, true, paused);
  const { rows } = live;
  return (
    <Card
      title={`${search.broker}/${search.topic}`}
      actions={
        <>
          <LiveBadge live={live} paused={paused} />
          <span class="note">
            {plural(live.count, "event")}
            {live.count > MOST && `, the newest ${count(MOST)} are kept`}
          </span>
          {!live.ended && (
            <button onClick={() => set(!paused)} aria-pressed={paused}>
              <Icon name={paused ? "play" : "pause"} /> {paused ? "Continue" : "Pause"}
            </button>
          )}
        </>
      }
    >
      {live.problem && <ProblemBox problem={live.problem} />}
      {rows.length > 0 && <Rows label="Events as they come" rows={rows} broker={search.broker} />}
      {rows.length === 0 && !live.problem && (
        <Empty title="Nothing has come yet" icon="events">
          Every event that is written to {search.topic} from now on and matches the attributes above appears here.
        </Empty>
      )}
    </Card>
  );
}

function LiveBadge({ live, paused }: { live: Live; paused: boolean }) {
  if (live.ended) return <Badge tone="bad">Ended</Badge>;
  if (paused) return <Badge tone="warn">Paused</Badge>;
  return <Badge tone={live.open ? "ok" : "busy"}>{live.open ? "Live" : "Connecting"}</Badge>;
}

interface RowsProps {
  label: string;
  rows: Message[];
  broker: string;
  onEnd?: () => void;
}

function Rows({ label, rows, broker, onEnd }: RowsProps) {
  const to = (row: Message) => link(["events", "record", broker, row.topic, String(row.partition), row.position]);
  return (
    <Table
      label={label}
      columns={columns(to)}
      rows={rows}
      keyOf={(row) => placeOf(row)}
      onEnd={onEnd}
      onOpen={(row) => go(to(row))}
    />
  );
}

function columns(to: (row: Message) => string): Column<Message>[] {
  return [
    { title: "Stored", width: "7rem", phone: "5.75rem", cell: (row) => <Time ms={row.time_ms} as="row" /> },
    {
      title: "Type",
      width: "24%",
      phone: "40%",
      cell: (row) => (
        <a href={to(row)}>
          <Cut text={nameOf(row).type || "No event"} tail={TYPE_TAIL} />
        </a>
      ),
    },
    { title: "Id", cell: (row) => <code>{nameOf(row).id ? <Cut text={nameOf(row).id} /> : <span title={row.fault}>{row.fault}</span>}</code> },
    { title: "Source", width: "14%", phone: false, cell: (row) => <Cut text={nameOf(row).source} /> },
    { title: "Subject", width: "12%", phone: false, cell: (row) => <Cut text={attribute(row, "subject")} /> },
    { title: "Key", width: "7.5rem", spare: true, phone: false, cell: (row) => <Cut text={keyOf(row)} /> },
    { title: "Place", width: "6.5rem", phone: false, cell: (row) => <code>{`${row.partition}@${row.position}`}</code> },
  ];
}
