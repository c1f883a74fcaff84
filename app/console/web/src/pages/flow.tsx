import { useMemo } from "preact/hooks";

import { api } from "../api/client";
import { useLoad } from "../api/use";
import { middle, rate } from "../format";
import { accessOf } from "../messages";
import { link } from "../router";
import { Allowed } from "../session";
import { useStatus } from "../status";
import { Empty, Loading } from "../ui/empty";
import { Head } from "../ui/page";
import { ProblemBox } from "../ui/problem";
import { COLUMNS, graphOf, type Graph, type Intake, type Node as GraphNode, type Sender, type Sources, type State } from "../flow/graph";
import { columnX, HEIGHT, layout, WIDTH, type Drawn, type Placed } from "../flow/layout";
import type { Page } from "./page";

const EVERY = 2500; // milliseconds
const CONFIGURATION_EVERY = 15_000;

const WORDS: Record<State, string> = { flows: "events flow", idle: "nothing now", paused: "paused", failing: "failing" };

function Flow() {
  const { value: status, samples } = useStatus();
  const listed = useLoad((signal) => api.get("/v1/subscriptions", { signal }), [], EVERY);
  const configuration = useLoad((signal) => api.get("/v1/config", { signal }), [], CONFIGURATION_EVERY);
  const sources = useMemo(() => sourcesOf(configuration.value?.configuration), [configuration.value]);
  const problem = listed.problem ?? configuration.problem;
  if (!status || !listed.value || !configuration.value)
    return problem ? <ProblemBox problem={problem} onRetry={listed.reload} /> : <Loading />;
  const graph = graphOf(status, listed.value, sources, samples);
  const picture = layout(graph);
  return (
    <div class="stack">
      <Head title="Flow" note="Who sends events, which route and topic they take, who gets them. Rates are events a second." actions={<Legend />} />
      {problem && <ProblemBox problem={problem} />}
      {status.routes.length + listed.value.length === 0 && <Nothing />}
      <div class="card flow" tabIndex={0} role="region" aria-label="The flow of events">
        <svg viewBox={`0 0 ${picture.width} ${picture.height}`} role="group" aria-label="The flow of events">
          {COLUMNS.map((each, column) => (
            <text key={each} class="flow-column" x={columnX(column)} y={16}>
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
      <Columns graph={graph} />
    </div>
  );
}

/** Producers and intakes of the configuration in force. */
function sourcesOf(configuration: Record<string, unknown> | undefined): Sources {
  const producers = (configuration?.producers ?? []) as { name: string; may?: { routes?: string[] } }[];
  const intakes = (configuration?.intakes ?? []) as { name: string; route?: string | null }[];
  return {
    producers: producers.map((each): Sender => ({ name: each.name, routes: each.may?.routes ?? ["*"] })),
    intakes: intakes.map((each): Intake => ({ name: each.name, route: each.route ?? null })),
    open: accessOf(configuration) === "open",
  };
}

/** The same for a narrow window: one column below the other, each part with the parts that it leads to. */
function Columns({ graph }: { graph: Graph }) {
  const titles = new Map(graph.nodes.map((each) => [each.id, each.column === 4 ? each.title + pathOf(each) : each.title]));
  return (
    <div class="flow-columns stack">
      {COLUMNS.map((title, column) => (
        <section class="card" key={title}>
          <h2>{title}</h2>
          {graph.nodes.every((each) => each.column !== column) && <p class="note">None.</p>}
          <ul class="plain">
            {graph.nodes
              .filter((each) => each.column === column)
              .map((each) => (
                <Part key={each.id} node={each} next={graph.lines.filter((line) => line.from === each.id).map((line) => titles.get(line.to)!)} />
              ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

/** Two targets of one host differ in their path. */
function pathOf(target: GraphNode): string {
  return target.note.startsWith("/") ? target.note : "";
}

function Part({ node, next }: { node: GraphNode; next: string[] }) {
  return (
    <li class={`flow-part ${node.state}`}>
      <a href={node.href} aria-label={wordsOf(node)}>
        {node.title}
      </a>
      <small>{[node.note, node.left].filter(Boolean).join(", ")}</small>
      {next.length > 0 && <small>to {next.join(", ")}</small>}
    </li>
  );
}

function wordsOf(node: GraphNode): string {
  return `${node.kind} ${node.title}: ${[node.note, node.left].filter(Boolean).join(", ")}, ${WORDS[node.state]}`;
}

function Line({ line }: { line: Drawn }) {
  const words = line.rate === null ? WORDS[line.state] : `${rate(line.rate)} a second, ${WORDS[line.state]}`;
  const width = 1.5 + Math.min(4, Math.log10(1 + (line.rate ?? 0)) * 1.5);
  return (
    <g class={`flow-line ${line.state}`} role="img" aria-label={`${line.label}: ${words}`}>
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

const FITS = 19; // characters of a title

function Node({ node }: { node: Placed }) {
  const words = wordsOf(node);
  const top = node.y + (node.left ? 0 : 7);
  return (
    <a href={node.href} class={`flow-node ${node.state}`} data-node={node.id}>
      <title>{words}</title>
      <rect x={node.x} y={node.y} width={WIDTH} height={HEIGHT} rx={6} />
      <rect class="flow-mark" x={node.x} y={node.y + 8} width={3} height={HEIGHT - 16} rx={1.5} />
      <text x={node.x + 14} y={top + 20} class="flow-title">
        {middle(node.title, FITS)}
      </text>
      <text x={node.x + 14} y={top + 37} class="flow-note">
        {middle(node.note, FITS + 5)}
      </text>
      {node.left && (
        <text x={node.x + 14} y={node.y + 53} class="flow-note">
          {node.left}
        </text>
      )}
    </a>
  );
}

function Legend() {
  return (
    <ul class="flow-legend" aria-label="Colours">
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
      <Empty title="No route and no subscription yet" icon="flow">
        A route in the configuration file says to which topic events go. A subscription reads topics and delivers.{" "}
        <Allowed scope="configure">
          <a href={link(["subscriptions"], { make: 1 })}>Create a subscription</a>
        </Allowed>
      </Empty>
    </div>
  );
}

export const flow: Page = { id: "flow", title: "Flow", key: "f", icon: "flow", group: "Watch", scope: "read", component: Flow };
