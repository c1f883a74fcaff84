// Producers and intakes: who sends how much, what is refused and why, and what each may send.
import { api } from "../api/client";
import type { Json, Status } from "../api/types";
import { useLoad } from "../api/use";
import { ago, count, NONE, rate } from "../format";
import { accessOf } from "../messages";
import { useStatus } from "../status";
import { Badge } from "../ui/badge";
import { Code } from "../ui/code";
import { Empty, Loading } from "../ui/empty";
import { Card, Head } from "../ui/page";
import { Table, type Column } from "../ui/table";
import { toYaml } from "../yaml";
import type { Page } from "./page";

type Sender = Status["producers"] extends (infer P)[] | undefined ? P : never;
type Members = { [name: string]: Json };

function Producers() {
  const { value } = useStatus();
  const configuration = useLoad((signal) => api.get("/v1/config", { signal }), []);
  const settings = (configuration.value?.configuration ?? {}) as Members;
  if (!value) return <Loading />;
  const producers = value.producers ?? [];
  const intakes = value.intakes ?? [];
  const refusals = value.counters.producer_refusals ?? {};
  return (
    <>
      <Head title="Producers" note="Who sends events and what is refused, counted since the start of this process." />
      <div class="stack">
        {producers.length === 0 && <Nobody access={accessOf(settings)} />}
        {producers.length > 0 && (
          <Card>
            <Table label="Producers" columns={columns(refusals)} rows={producers} keyOf={(row) => row.name} />
          </Card>
        )}
        <Strangers counters={value.counters} />
        {intakes.length > 0 && (
          <Card title="Intakes">
            <Table label="Intakes" columns={columns({})} rows={intakes} keyOf={(row) => row.name} />
          </Card>
        )}
        <Rights named={settings.producers} />
      </div>
    </>
  );
}

function Nobody({ access }: { access: string }) {
  return (
    <Empty title="No producer is named" icon="producers">
      {access === "open" ? "Anybody who reaches the events listener may send. " : "Only this machine may send. "}
      Name producers to tell senders apart and to limit each: <code>skybridge producers key new</code> makes a key, and{" "}
      <code>producers:</code> in the configuration gives its name, types, sources and quota.
    </Empty>
  );
}

/** `refusals`: by name and code, joined with a comma. */
function columns(refusals: Record<string, number>): Column<Sender>[] {
  const why = (name: string) =>
    Object.entries(refusals)
      .filter(([labels]) => labels.startsWith(`${name},`))
      .map(([labels, times]) => [labels.slice(name.length + 1), times] as const);
  return [
    { title: "Name", cell: (row) => <strong>{row.name}</strong> },
    { title: "Events", width: "8rem", phone: "5rem", number: true, cell: (row) => count(row.events) },
    { title: "Events /s", width: "7rem", phone: "5rem", number: true, cell: (row) => rate(row.events_per_second) },
    {
      title: "Last event",
      width: "10rem",
      phone: false,
      cell: (row) => (row.last_event_seconds === null ? NONE : ago(Date.now() - row.last_event_seconds * 1000)),
    },
    { title: "Refused", width: "7rem", phone: "5rem", number: true, cell: (row) => count(row.refused) },
    {
      title: "Reasons",
      phone: false,
      cell: (row) =>
        why(row.name).map(([code, times]) => (
          <span key={code} class="apart">
            <Badge tone="warn">{code}</Badge> {count(times)}
          </span>
        )),
    },
  ];
}

/** Requests that no producer sent: with a key that is wrong or no longer valid, or with none. */
function Strangers({ counters }: { counters: Status["counters"] }) {
  const refused = refusedOf(counters);
  if (!refused.length) return null;
  return (
    <Card title="Refused, from strangers">
      <p>
        {refused.map(([code, times]) => (
          <span key={code} class="apart">
            <Badge tone="warn">{code}</Badge> {count(times)}
          </span>
        ))}
      </p>
      <p class="note">
        Requests without a valid credential of a producer. <code>not-authenticated</code>: the key or token is wrong,
        revoked or missing. Cure, if the sender should be known: give it a key of <code>skybridge producers key new</code>.
      </p>
    </Card>
  );
}

/** By code: all refusals of the listeners without those that are counted for a producer or an intake. */
function refusedOf(counters: Status["counters"]): [string, number][] {
  const known = new Map<string, number>();
  for (const name of ["producer_refusals", "intake_requests"])
    for (const [labels, times] of Object.entries(counters[name] ?? {})) {
      const code = labels.slice(labels.indexOf(",") + 1);
      known.set(code, (known.get(code) ?? 0) + times);
    }
  const rest = Object.entries(counters.events_refused ?? {}).map(
    ([code, times]): [string, number] => [code, times - (known.get(code) ?? 0)],
  );
  const denied = counters.kafka_logins?.denied ?? 0;
  return [...rest, ["kafka-login-denied", denied] as [string, number]].filter(([, times]) => times > 0);
}

/** As the configuration has it: keys are hidden by the service. */
function Rights({ named }: { named: Json | undefined }) {
  if (!Array.isArray(named) || named.length === 0) return null;
  return (
    <Card title="What each may send">
      <Code text={toYaml({ producers: named.map(written) })} label="producers, as configured" />
    </Card>
  );
}

/** Without the settings that say nothing. */
function written(value: Json): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const kept = Object.entries(value).filter(([, each]) => each !== null && !(Array.isArray(each) && !each.length));
  return Object.fromEntries(kept);
}

export const producers: Page = {
  id: "producers",
  title: "Producers",
  key: "p",
  icon: "producers",
  group: "Service",
  scope: "read",
  component: Producers,
};
