import { api, send, address } from "../api/client";
import type { Standing, SubscriptionHealth } from "../api/types";
import { useLoad } from "../api/use";
import { capital, duration } from "../format";
import { link } from "../router";
import { byCure, Item } from "../needs";
import { toYaml } from "../yaml";
import { Code } from "../ui/code";
import { Loading } from "../ui/empty";
import { Head, Tabs } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { Actions } from "./actions";
import { Attempts } from "./attempts";
import { Live } from "./live";
import { State } from "./state";
import { Letters, Parked } from "./waiting";
import { hindranceOf, wordsOf } from "../verdicts";
import { jsonOf, lettersIn, parkedIn, sinkOf, sourceOf, type Document } from "./words";

const EVERY = 1250; // milliseconds

/** One subscription: its head with the actions, and one of its parts. */
export function Detail({ id, part }: { id: string; part: string }) {
  const standing = useLoad(
    (signal) => api.get("/v1/subscriptions/{id}/status", { path: { id }, signal }),
    [id],
    EVERY,
  );
  const document = useLoad((signal) => documentOf(id, signal), [id, standing.value?.etag]);
  const { value, problem } = standing;
  if (!value)
    return problem ? (
      <>
        <Head title={id} above={ABOVE} />
        <ProblemBox problem={problem} onRetry={standing.reload} />
      </>
    ) : (
      <Loading />
    );
  const { health } = value;
  return (
    <div class="stack">
      <Head
        above={ABOVE}
        title={
          <>
            {id} <State health={health} />
          </>
        }
        note={document.value && `${sourceOf(document.value)} → ${sinkOf(document.value)}`}
        actions={<Actions standing={value} document={document.value} reload={standing.reload} />}
      />
      {problem && <ProblemBox problem={problem} />}
      <Causes standing={value} />
      <Tabs label="Parts of the subscription" tabs={tabsOf(id, health)} current={part} />
      {part === "" && <Live id={id} health={health} document={document.value} />}
      {part === "settings" && document.value && <Settings standing={value} document={document.value} />}
      {part === "attempts" && <Attempts health={health} />}
      {part === "parked" && <Parked id={id} rows={parkedIn(health)} />}
      {part === "dead-letters" && <Letters id={id} count={lettersIn(health)} />}
    </div>
  );
}

const ABOVE: [string, string][] = [["Subscriptions", link(["subscriptions"])]];

export async function documentOf(id: string, signal?: AbortSignal): Promise<Document> {
  const url = address("/v1/subscriptions/{id}", { path: { id } });
  return (await (await send("GET", url, { signal })).json()) as Document;
}

function tabsOf(id: string, health: SubscriptionHealth) {
  const counted = (title: string, count: number | null) => (count ? `${title} (${count})` : title);
  return [
    { id: "", title: "Now", href: link(["subscriptions", id]) },
    { id: "attempts", title: "Attempts", href: link(["subscriptions", id, "attempts"]) },
    { id: "parked", title: counted("Parked", parkedIn(health)), href: link(["subscriptions", id, "parked"]) },
    {
      id: "dead-letters",
      title: counted("Dead letters", lettersIn(health)),
      href: link(["subscriptions", id, "dead-letters"]),
    },
    { id: "settings", title: "Settings", href: link(["subscriptions", id, "settings"]) },
  ];
}

/** Why it does not deliver, and what its settings may mean. */
function Causes({ standing }: { standing: Standing }) {
  const { health, faults, warnings } = standing;
  const needs = health.attention ?? [];
  return (
    <>
      {byCure(needs).map((each) => (
        <Item key={each[0].verdict + each[0].next} needs={each} title={capital(wordsOf(each[0]))} found={health} headed />
      ))}
      {!hindranceOf(health) && health.state !== "running" && health.cause && (
        <div class="needs warn">
          <div>
            <strong>{titleOf(health)}</strong>
            <p>{capital(health.cause)}</p>
          </div>
        </div>
      )}
      {needs.every((each) => each.verdict !== "cannot-run") &&
        faults.map((each) => (
          <div class="needs" key={each}>
            <div>
              <strong>It cannot run</strong>
              <p>{capital(each)}</p>
            </div>
          </div>
        ))}
      {warnings.map((each) => (
        <div class="needs warn" key={each}>
          <div>
            <strong>Looks doubtful</strong>
            <p>{each}</p>
          </div>
        </div>
      ))}
    </>
  );
}

function titleOf({ state, paused_for }: SubscriptionHealth): string {
  if (state === "paused" && paused_for !== null) return paused_for < 1 ? "Tries again now" : `Waits for ${duration(paused_for)}, then tries again`;
  return state[0]!.toUpperCase() + state.slice(1);
}

function Settings({ standing, document }: { standing: Standing; document: Document }) {
  const from =
    standing.origin === "file" ? (
      <>
        It is in the configuration file at {standing.place}: change it there, then reload. The console cannot change the
        file.
      </>
    ) : standing.origin === "kubernetes" ? (
      <>It is declared by {standing.place}: change it there. The console cannot change the object.</>
    ) : (
      <>It was made by the API and is kept in the store.</>
    );
  return (
    <div class="stack">
      <p class="note">{from} Secrets are not shown.</p>
      <Code label={`Settings of ${standing.id} in YAML, as in the file`} text={toYaml([jsonOf(document)])} />
    </div>
  );
}
