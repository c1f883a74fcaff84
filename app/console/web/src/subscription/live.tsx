// How a subscription fares now: figures, charts of the last hour, the newest attempts.
import { api } from "../api/client";
import type { SubscriptionHealth } from "../api/types";
import { useLoad } from "../api/use";
import { count, duration, milliseconds, plural, rate } from "../format";
import { link } from "../router";
import { delivered, rateNow, rates, withHistory, type Sample } from "../samples";
import { Allowed } from "../session";
import { useStatus } from "../status";
import { Chart, type Colour } from "../ui/chart";
import { Code } from "../ui/code";
import { Empty } from "../ui/empty";
import { Card, Figure } from "../ui/page";
import { AttemptTable, useAttempts } from "./attempts";
import { ReplayProgress } from "./replay";
import { lettersIn, oldestOf, parkedIn, sourceOf, summed, type Document } from "./words";

const SHOWN = 12;

export function Live({ id, health, document }: { id: string; health: SubscriptionHealth; document: Document | undefined }) {
  const { samples } = useStatus();
  const { value: history } = useLoad((signal) => api.get("/v1/subscriptions/{id}/history", { path: { id }, signal }), [id]);
  const { value: found } = useAttempts(health, 200);
  const attempts = found?.attempts ?? [];
  const took = attempts.map((each) => each.duration_ms).sort((a, b) => a - b);
  const part = (share: number) => (took.length ? took[Math.min(took.length - 1, Math.floor(took.length * share))] : null);
  return (
    <div class="stack">
      <ReplayProgress id={id} />
      <div class="figures eights" role="group" aria-label="Now">
        <Figure name="Delivered" value={rate(rateNow(samples, delivered(id)))} unit="/s" />
        <Figure name="Lag" value={count(health.lag)} />
        <Figure name="Oldest event" value={duration(oldestOf(health))} />
        <Figure name="Attempt p99" value={milliseconds(part(0.99))} />
        <Figure name="In flight" value={count(health.in_flight)} />
        {health.queue ? (
          <Figure name="Wait to be pulled" value={count(health.queue.waiting)} />
        ) : (
          <Figure name="Wait to retry" value={count(health.waiting)} {...(health.waiting ? { tone: "warn" } : {})} />
        )}
        <Figure
          name="Parked"
          value={count(parkedIn(health))}
          href={link(["subscriptions", id, "parked"])}
          {...(parkedIn(health) ? { tone: "warn" } : {})}
        />
        <Figure
          name="Dead letters"
          value={count(lettersIn(health))}
          href={link(["subscriptions", id, "dead-letters"])}
          {...(lettersIn(health) ? { tone: "bad" } : {})}
        />
      </div>
      <Charts id={id} samples={withHistory(samples, id, history)} />
      <Card
        title="Newest attempts"
        actions={<a href={link(["subscriptions", id, "attempts"])}>All attempts</a>}
      >
        {attempts.length ? (
          <AttemptTable attempts={attempts.slice(0, SHOWN)} />
        ) : (
          <First health={health} document={document} />
        )}
      </Card>
    </div>
  );
}

/** Without attempts: what waits, or how to send the first event. */
function First({ health, document }: { health: SubscriptionHealth; document: Document | undefined }) {
  const { id, queue, delivered: done, lag, broker, broker_health } = health;
  if (queue?.waiting)
    return (
      <Empty title={`${plural(queue.waiting, "event")} ${queue.waiting === 1 ? "waits" : "wait"} to be pulled`} icon="events">
        <Allowed scope="pull">
          <Code label="Print and acknowledge them" text={`skybridge pull ${id}\n`} />
        </Allowed>
      </Empty>
    );
  if (!broker_health.healthy)
    return <Empty title="Nothing can be read" icon="warning">{`Broker ${broker} does not answer. Events appear here when it is back.`}</Empty>;
  if (done || lag) return <Empty title="No attempt is stored">{lag ? `${plural(lag, "event")} unfinished.` : "No event waits."}</Empty>;
  const text = `skybridge send --source /try --type com.example.hello --data '{"hello": "world"}'\n`;
  return (
    <Empty title="Waiting for the first event" icon="events">
      <p>
        It appears here as soon as it arrives{document ? ` in ${sourceOf(document)} and passes the filters` : ""}.
        <Allowed scope="operate"> A test event (above) goes to the target at once, past topics and filters.</Allowed>
      </p>
      <Code label={`Send an event that ${id} may want`} text={text} />
    </Empty>
  );
}

const CLASSES: { name: string; colour: Colour; wanted: (answer: string) => boolean }[] = [
  { name: "2xx", colour: "ok", wanted: (answer) => answer.startsWith("2") },
  { name: "4xx", colour: "warn", wanted: (answer) => answer.startsWith("4") || answer.startsWith("3") },
  { name: "5xx", colour: "bad", wanted: (answer) => answer.startsWith("5") },
  { name: "no answer", colour: "ink-3", wanted: (answer) => !/^\d/.test(answer) },
];

function Charts({ id, samples }: { id: string; samples: Sample[] }) {
  const times = samples.map((each) => each.at);
  const answers = (wanted: (answer: string) => boolean) => (sample: Sample) => {
    const found = sample.subscriptions.get(id)?.answers;
    if (!found) return undefined;
    return summed(Object.fromEntries(Object.entries(found).filter(([answer]) => wanted(answer))));
  };
  return (
    <div class="charts three">
      <Chart
        title="Delivered a second"
        times={times}
        format={rate}
        series={[{ name: "delivered", colour: "accent", values: rates(samples, delivered(id)), fill: true }]}
      />
      <Chart
        title="Lag"
        times={times}
        format={count}
        series={[
          {
            name: "unfinished records",
            colour: "accent",
            values: samples.map((each) => each.subscriptions.get(id)?.lag ?? null),
            fill: true,
          },
        ]}
      />
      <Chart
        title="Answers a second"
        times={times}
        format={rate}
        series={CLASSES.map(({ name, colour, wanted }) => ({ name, colour, values: rates(samples, answers(wanted)) }))}
      />
    </div>
  );
}
