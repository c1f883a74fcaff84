// The configuration as a picture: five columns of nodes, and lines with rates between neighbours.
import type { ListedSubscription, Status, SubscriptionHealth } from "../api/types";
import { count, rate } from "../format";
import { link } from "../router";
import { delivered, published, rateNow, sent, type Sample } from "../samples";
import { parkedIn, sinkKind, type Document } from "../subscription/words";
import { hindranceOf, wordsOf } from "../verdicts";

/** `flows`, nothing comes now, somebody stopped it, or it does not get through. */
export type State = "flows" | "idle" | "paused" | "failing";

export interface Node {
  id: string;
  column: number;
  title: string;
  /** The line under the title. */
  note: string;
  /** A second line: what is unfinished. */
  left?: string;
  state: State;
  href: string;
  /** What it is, for a screen reader. */
  kind: string;
}

export interface Line {
  from: string;
  to: string;
  /** Events a second; null where they cannot be told apart. */
  rate: number | null;
  state: State;
}

export interface Graph {
  nodes: Node[];
  lines: Line[];
}

export interface Sender {
  name: string;
  /** Names of routes, or prefixes with a star. */
  routes: string[];
}

/** An intake of the configuration. Without a route, the first route that matches takes its events. */
export interface Intake {
  name: string;
  route: string | null;
}

/** Who may send, by the configuration. Without any producer, everybody who reaches the listener may. */
export interface Sources {
  producers: Sender[];
  intakes: Intake[];
  /** True if every client that reaches the listener may send; else only programs of its machine, and producers. */
  open: boolean;
}

export const COLUMNS = ["Senders", "Routes", "Topics", "Subscriptions", "Targets"] as const;

export function graphOf(status: Status, listed: ListedSubscription[], sources: Sources, samples: Sample[]): Graph {
  const graph: Graph = { nodes: [], lines: [] };
  addProducers(graph, status, sources.producers, samples);
  addIntakes(graph, status, sources.intakes);
  if (!sources.producers.length) addAnybody(graph, status, sources.open, samples);
  for (const route of status.routes) addRoute(graph, status, route.name, samples);
  for (const each of listed) addSubscription(graph, status, each, samples);
  for (const each of graph.nodes) if (each.column === 2) markTopic(each, graph, listed);
  return graph;
}

function add(graph: Graph, node: Node): void {
  if (!graph.nodes.some((each) => each.id === node.id)) graph.nodes.push(node);
}

function moving(value: number | null): State {
  return value ? "flows" : "idle";
}

function addProducers(graph: Graph, status: Status, senders: Sender[], samples: Sample[]): void {
  const names = status.routes.map((each) => each.name);
  for (const { name, routes } of senders) {
    const own = rateNow(samples, sent(name));
    const may = names.filter((each) => routes.some((pattern) => fits(pattern, each)));
    const note = `${rate(own)} /s`;
    add(graph, { id: `from ${name}`, column: 0, title: name, note, state: moving(own), href: link(["producers", name]), kind: "Producer" });
    addSent(graph, `from ${name}`, may, own);
  }
}

function addIntakes(graph: Graph, status: Status, configured: Intake[]): void {
  for (const { name, events_per_second: own } of status.intakes ?? []) {
    const route = configured.find((each) => each.name === name)?.route;
    const may = status.routes.map((each) => each.name).filter((each) => !route || each === route);
    const note = `${rate(own)} /s`;
    add(graph, { id: `in ${name}`, column: 0, title: `/in/${name}`, note, state: moving(own), href: link(["producers"]), kind: "Intake" });
    addSent(graph, `in ${name}`, may, own);
  }
}

/** Events are counted by sender: with several routes nobody knows which of them took how many. */
function addSent(graph: Graph, from: string, routes: string[], own: number | null): void {
  const alone = routes.length === 1;
  for (const route of routes)
    graph.lines.push({ from, to: `route ${route}`, rate: alone ? own : null, state: alone ? moving(own) : "idle" });
}

/** The routes' own rates are theirs, if there is no other sender. */
function addAnybody(graph: Graph, status: Status, open: boolean, samples: Sample[]): void {
  const others = (status.intakes ?? []).length > 0;
  const words = open ? { title: "Anybody", note: "the listener is open" } : { title: "This machine", note: "its programs may send" };
  add(graph, { id: "anybody", column: 0, ...words, state: "idle", href: link(["producers"]), kind: "Senders" });
  for (const { name } of status.routes) {
    const now = others ? null : rateNow(samples, published(name));
    graph.lines.push({ from: "anybody", to: `route ${name}`, rate: now, state: moving(now) });
  }
}

function fits(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

function addTopic(graph: Graph, status: Status, broker: string, topic: string): string {
  const id = `topic ${broker} ${topic}`;
  const away = status.brokers[broker]?.healthy === false;
  add(graph, {
    id,
    column: 2,
    title: topic,
    note: away ? `${broker} does not answer` : broker,
    state: away ? "failing" : "idle",
    href: link(["events"], { broker, topic }),
    kind: "Topic",
  });
  return id;
}

/** Events flow through it, and a mirror may feed it. */
function markTopic(node: Node, graph: Graph, listed: ListedSubscription[]): void {
  const mirrors = listed.filter((each) => targetOf(each.id, each.document).topic === node.id);
  const feeders = new Set(mirrors.map((each) => `subscription ${each.id}`));
  const near = graph.lines.filter((each) => each.from === node.id || each.to === node.id || feeders.has(each.from));
  if (node.state === "idle" && near.some((each) => each.state === "flows")) node.state = "flows";
  if (mirrors.length) node.note = `${node.note}, fed by ${mirrors.map((each) => each.id).join(", ")}`;
}

function addRoute(graph: Graph, status: Status, name: string, samples: Sample[]): void {
  const route = status.routes.find((each) => each.name === name)!;
  const now = rateNow(samples, published(name));
  const id = `route ${name}`;
  const away = route.to.some((each) => status.brokers[each.broker]?.healthy === false);
  const spool = (status.spools ?? []).find((each) => each.route === name && each.records > 0);
  const note = spool ? `${rate(now)} /s, ${count(spool.records)} in the spool` : `${rate(now)} /s`;
  const state = away ? "failing" : moving(now);
  add(graph, { id, column: 1, title: name, note, state, href: link(["explain"], { route: name }), kind: "Route" });
  for (const target of route.to) {
    const to = addTopic(graph, status, target.broker, target.topic);
    const failing = status.brokers[target.broker]?.healthy === false;
    graph.lines.push({ from: id, to, rate: now, state: failing ? "failing" : moving(now) });
  }
}

function addSubscription(graph: Graph, status: Status, listed: ListedSubscription, samples: Sample[]): void {
  const { id: name, document, health } = listed;
  const id = `subscription ${name}`;
  const now = rateNow(samples, delivered(name));
  const state = stateOf(listed, now);
  const note = noteOf(listed, now);
  add(graph, { id, column: 3, title: name, note, left: leftOf(health), state, href: link(["subscriptions", name]), kind: "Subscription" });
  const source = document.source as { broker: string; topics: string[] };
  for (const topic of source.topics) {
    const from = addTopic(graph, status, source.broker, topic);
    graph.lines.push({ from, to: id, rate: null, state }); // deliveries are counted at the target
  }
  const ofTarget = health.broker_health.healthy === false ? "idle" : state; // no fault of the target
  graph.lines.push({ from: id, to: addTarget(graph, name, document, ofTarget), rate: now, state });
}

/** What needs a person decides the colour: an error or a parked key is a failure, a warning waits. */
function stateOf({ health }: ListedSubscription, now: number | null): State {
  const found = hindranceOf(health);
  if (!found) return moving(now);
  if (found.verdict === "paused" || found.verdict === "queue-full") return "paused";
  return found.severity === "error" || found.verdict === "parked-keys" ? "failing" : "paused";
}

function noteOf({ health }: ListedSubscription, now: number | null): string {
  const found = hindranceOf(health);
  return found ? wordsOf(found) : `${rate(now)} /s`;
}

/** What is unfinished, each with its own number: events of parked keys are no part of the lag. A dash is unknown. */
function leftOf(health: SubscriptionHealth): string {
  const lag = `lag ${count(health.lag)}`;
  const parked = parkedIn(health);
  return parked === 0 ? lag : `${lag}, ${count(parked)} parked`;
}

const GRAVEST: State[] = ["idle", "paused", "flows", "failing"];

/** A target of several subscriptions has the gravest of their states. */
function addTarget(graph: Graph, name: string, document: Document, state: State): string {
  const { title, note, id } = targetOf(name, document);
  const known = graph.nodes.find((each) => each.id === id);
  if (!known) add(graph, { id, column: 4, title, note, state, href: link(["subscriptions", name]), kind: "Target" });
  else if (GRAVEST.indexOf(state) > GRAVEST.indexOf(known.state)) known.state = state;
  return id;
}

interface Target {
  id: string;
  title: string;
  note: string;
  /** The node of the topic that it feeds. */
  topic?: string;
}

function targetOf(name: string, document: Document): Target {
  const kind = sinkKind(document);
  if (kind === "pull") return { id: `pull ${name}`, title: "Consumers", note: `pull ${name}` };
  if (kind === "webhook") {
    const url = new URL(String(document.sink));
    return { id: `to ${url}`, title: url.host, note: url.pathname };
  }
  const sink = document.sink as { broker: string; topic?: string; exchange?: string };
  const place = sink.topic ?? sink.exchange ?? "";
  const topic = `topic ${sink.broker} ${place}`;
  return { id: `to ${sink.broker} ${place}`, title: place, note: `topic of ${sink.broker}`, topic };
}
