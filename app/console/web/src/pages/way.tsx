import { useMemo } from "preact/hooks";

import { api } from "../api/client";
import { useLoad } from "../api/use";
import { rate } from "../format";
import { link } from "../router";
import { Allowed } from "../session";
import { useStatus } from "../status";
import { Empty, Loading } from "../ui/empty";
import { Head } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { COLUMNS, graphOf, type Sender, type State } from "../way/graph";
import { columnX, HEIGHT, layout, WIDTH, type Drawn, type Placed } from "../way/layout";
import type { Page } from "./page";

const EVERY = 2500; // milliseconds
const CONFIGURATION_EVERY = 15_000;

const WORDS: Record<State, string> = { flows: "events flow", idle: "nothing now", paused: "paused", failing: "failing" };

function Way() {
  const { value: status, samples } = useStatus();
  const listed = useLoad((signal) => api.get("/v1/subscriptions", { signal }), [], EVERY);
  const configuration = useLoad((signal) => api.get("/v1/config", { signal }), [], CONFIGURATION_EVERY);
  const senders = useMemo(() => sendersOf(configuration.value?.configuration), [configuration.value]);
  const problem = listed.problem ?? configuration.problem;
  if (!status || !listed.value || !configuration.value)
    return problem ? <ProblemBox problem={problem} onRetry={listed.reload} /> : <Loading />;
  const picture = layout(graphOf(status, listed.value, senders, samples));
  return (
    <div class="stack">
      <Head title="Way" note="Who sends events, which route and topic they take, who gets them. Rates are events a second." actions={<Legend />} />
      {problem && <ProblemBox problem={problem} />}
      {status.routes.length + listed.value.length === 0 && <Nothing />}
      <div class="card way" tabIndex={0} role="region" aria-label="The way of events">
        <svg viewBox={`0 0 ${picture.width} ${picture.height}`} role="group" aria-label="The way of events">
          {COLUMNS.map((each, column) => (
            <text key={each} class="way-column" x={columnX(column)} y={16}>
              {each}
            </text>
          ))}
          {picture.lines.map((each) => (
            <Line key={`${each.from}>${each.to}`} line={each} />
          ))}
          {picture.nodes.map((each) => (
            <Node key={each.id} node={each} />
          ))}
        </svg>
      </div>
    </div>
  );
}

/** The producers of the configuration in force. */
function sendersOf(configuration: Record<string, unknown> | undefined): Sender[] {
  const producers = (configuration?.producers ?? []) as { name: string; may?: { routes?: string[] } }[];
  return producers.map((each) => ({ name: each.name, routes: each.may?.routes ?? ["*"] }));
}

function Line({ line }: { line: Drawn }) {
  const words = line.rate === null ? WORDS[line.state] : `${rate(line.rate)} a second, ${WORDS[line.state]}`;
  const width = 1.5 + Math.min(4, Math.log10(1 + (line.rate ?? 0)) * 1.5);
  return (
    <g class={`way-line ${line.state}`} role="img" aria-label={`${line.label}: ${words}`}>
      <path d={line.path} stroke-width={width} />
      {line.rate !== null && (
        <text x={line.x} y={line.y} text-anchor="middle">
          {rate(line.rate)}
        </text>
      )}
      <title>{`${line.label}: ${words}`}</title>
    </g>
  );
}

const FITS = 18; // characters of a title

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function Node({ node }: { node: Placed }) {
  const words = `${node.kind} ${node.title}: ${node.note}, ${WORDS[node.state]}`;
  return (
    <a href={node.href} class={`way-node ${node.state}`} data-node={node.id}>
      <title>{words}</title>
      <rect x={node.x} y={node.y} width={WIDTH} height={HEIGHT} rx={6} />
      <rect class="way-mark" x={node.x} y={node.y + 8} width={3} height={HEIGHT - 16} rx={1.5} />
      <text x={node.x + 14} y={node.y + 20} class="way-title">
        {cut(node.title, FITS)}
      </text>
      <text x={node.x + 14} y={node.y + 37} class="way-note">
        {cut(node.note, FITS + 4)}
      </text>
    </a>
  );
}

function Legend() {
  return (
    <ul class="way-legend" aria-label="Colours">
      {(Object.keys(WORDS) as State[]).map((each) => (
        <li key={each} class={each}>
          {WORDS[each]}
        </li>
      ))}
    </ul>
  );
}

function Nothing() {
  return (
    <div class="card">
      <Empty title="No route and no subscription yet" icon="way">
        A route in the configuration file says to which topic events go. A subscription reads topics and delivers.{" "}
        <Allowed scope="configure">
          <a href={link(["subscriptions"], { make: 1 })}>Create a subscription</a>
        </Allowed>
      </Empty>
    </div>
  );
}

export const way: Page = { id: "way", title: "Way", key: "w", icon: "way", group: "Watch", scope: "read", component: Way };
