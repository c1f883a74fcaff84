import { Needs } from "../needs";
import type { History, Point, Status } from "../api/types";
import { bytes, count, duration, milliseconds, plural, rate, tickMilliseconds } from "../format";
import { useHistory } from "../history";
import { link } from "../router";
import { useStatus } from "../status";
import { lettersIn, parkedIn } from "../subscription/words";
import { Badge } from "../ui/badge";
import { Chart } from "../ui/chart";
import { Empty, Loading } from "../ui/empty";
import { Card, Figure, Head } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import type { Page } from "./page";

function Overview() {
  const { value: status } = useStatus();
  const { history, problem } = useHistory();
  if (!status) return <Loading />;
  return (
    <div class="stack">
      <Head title="Overview" note={<Whose status={status} process={history?.process} />} />
      <Needs status={status} />
      {problem && <ProblemBox problem={problem} />}
      <Figures now={history?.points.at(-1)} status={status} />
      <Charts points={history?.points ?? []} />
      <div class="columns">
        <Brokers status={status} />
        <Disks status={status} />
        <Spools status={status} />
      </div>
    </div>
  );
}

/** Which process answers, and which numbers are its own. */
function Whose({ status, process }: { status: Status; process: History["process"] | undefined }) {
  const place = process ? `, process ${process.pid} on ${process.host}` : "";
  return (
    <>
      {status.installation}: {status.roles.join(" and ")}
      {place}, up {duration(status.uptime_seconds)}. Rates, times and memory are those of this process; lag, parked events
      and dead letters are those of the installation.
    </>
  );
}

/** Null if one of them is unknown: a smaller sum would look like less work. */
function sum(values: (number | null)[]): number | null {
  return values.reduce((total, each) => (total === null || each === null ? null : total + each), 0);
}

function Figures({ now, status }: { now: Point | undefined; status: Status }) {
  const letters = sum(status.subscriptions.map(lettersIn));
  const parked = sum(status.subscriptions.map(parkedIn));
  const lag = now?.lag ?? sum(status.subscriptions.map((each) => each.lag));
  const running = status.subscriptions.filter((each) => each.state === "running").length;
  return (
    <div class="figures tens" aria-label="Now" role="group">
      <Figure name="Events in" value={rate(now?.received)} unit="/s" />
      <Figure name="Deliveries out" value={rate(now?.delivered)} unit="/s" />
      <Figure name="Failed attempts" value={rate(now?.failed)} unit="/s" {...toned(now?.failed, "warn")} />
      <Figure name="Publish p50" value={milliseconds(now?.publish_p50_ms)} />
      <Figure name="Publish p99" value={milliseconds(now?.publish_p99_ms)} />
      <Figure name="Lag" value={count(lag)} href={link(["subscriptions"])} />
      <Figure name="Parked" value={count(parked)} href={link(["letters", "parked"])} {...toned(parked, "warn")} />
      <Figure name="Dead letters" value={count(letters)} href={link(["letters"])} {...toned(letters, "bad")} />
      <Figure
        name="Subscriptions running"
        value={running}
        unit={`of ${status.subscriptions.length}`}
        href={link(["subscriptions"])}
      />
      <Figure name="Memory" value={bytes(now?.rss_bytes)} />
    </div>
  );
}

function toned(value: number | null | undefined, tone: "warn" | "bad"): { tone?: "warn" | "bad" } {
  return value ? { tone } : {};
}

function Charts({ points }: { points: Point[] }) {
  const times = points.map((each) => each.at);
  const column = (pick: (point: Point) => number | null) => points.map(pick);
  return (
    <div class="charts">
      <Chart
        title="Events a second"
        times={times}
        format={rate}
        series={[
          { name: "in", colour: "accent", values: column((each) => each.received), fill: true },
          { name: "out", colour: "ok", values: column((each) => each.delivered) },
        ]}
      />
      <Chart
        title="Publish"
        times={times}
        format={milliseconds}
        ticks={tickMilliseconds}
        series={[
          { name: "p99", colour: "warn", values: column((each) => each.publish_p99_ms) },
          { name: "p50", colour: "accent", values: column((each) => each.publish_p50_ms), fill: true },
        ]}
      />
      <Chart
        title="Unfinished"
        times={times}
        format={count}
        series={[
          { name: "lag", colour: "accent", values: column((each) => each.lag), fill: true },
          { name: "parked", colour: "warn", values: column((each) => each.parked) },
        ]}
      />
      <Chart
        title="Refused and failed a second"
        times={times}
        format={rate}
        series={[
          { name: "refused", colour: "warn", values: column((each) => each.refused) },
          { name: "failed", colour: "bad", values: column((each) => each.failed), fill: true },
        ]}
      />
    </div>
  );
}

function Brokers({ status }: { status: Status }) {
  const brokers = Object.entries(status.brokers);
  return (
    <Card title="Brokers and store">
      {brokers.length === 0 ? (
        <Empty title="No broker">
          The configuration names none under <code>brokers</code>.
        </Empty>
      ) : (
        <dl class="facts" id="brokers">
          {[...brokers, ["store", status.store] as const].map(([name, health]) => (
            <div key={name} class="fact" data-broker={name}>
              <dt>{name}</dt>
              <dd>
                <span title={health.cause || undefined}>
                  <Badge tone={health.healthy ? "ok" : "bad"}>{health.healthy ? "healthy" : awayWords(name)}</Badge>
                </span>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}

/** The words of the verdict above, which has the cause. */
function awayWords(name: string): string {
  return name === "store" ? "store away" : "broker away";
}

function Disks({ status }: { status: Status }) {
  const disks = Object.entries(status.disks);
  return (
    <Card title="Disk">
      {disks.length === 0 ? (
        <Empty title="No volume of its own">The log and the store of this process are elsewhere.</Empty>
      ) : (
        <dl class="stack">
          {disks.map(([folder, disk]) => {
            const used = disk.size ? 1 - disk.free / disk.size : 0;
            return (
              <div key={folder}>
                <dt class="split">
                  <code>{folder}</code>
                  <span>
                    {bytes(disk.free)} free of {bytes(disk.size)}
                  </span>
                </dt>
                <dd>
                  <meter
                    class={used > 0.85 ? "bad" : undefined}
                    min={0}
                    max={1}
                    value={used}
                    aria-label={`${folder}: ${Math.round(used * 100)} per cent used`}
                  />
                </dd>
              </div>
            );
          })}
        </dl>
      )}
    </Card>
  );
}

const SPOOL_TONES = { empty: "ok", spooling: "warn", draining: "busy", removed: "quiet" } as const;

/** Of routes that keep events while their broker is away. */
function Spools({ status }: { status: Status }) {
  const spools = status.spools ?? [];
  if (!spools.length) return null;
  return (
    <Card title="Spool">
      <dl class="stack">
        {spools.map((each) => (
          <div key={each.route} data-spool={each.route}>
            <dt class="split">
              <span>
                Route {each.route} <Badge tone={SPOOL_TONES[each.state]}>{each.state}</Badge>
              </span>
              <span>
                {plural(each.records, "event")}, {bytes(each.bytes)}
                {each.most > 0 && ` of ${bytes(each.most)}`}
              </span>
            </dt>
            <dd>
              {each.most > 0 && (
                <meter
                  class={each.bytes > 0.85 * each.most ? "bad" : undefined}
                  min={0}
                  max={each.most}
                  value={each.bytes}
                  aria-label={`Spool of ${each.route}: ${Math.round((100 * each.bytes) / each.most)} per cent used`}
                />
              )}
              {each.records > 0 && (
                <p class="cause">
                  The oldest event waits for {duration(each.oldest_seconds)}
                  {each.cause && `: ${each.cause}`}
                </p>
              )}
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

export const overview: Page = {
  id: "overview",
  title: "Overview",
  key: "o",
  icon: "overview",
  group: "Watch",
  scope: "read",
  component: Overview,
};
