// The configuration as a picture: five columns of nodes, and lines with rates between neighbours.
import type { ListedSubscription, Status, SubscriptionHealth } from "../api/types";
import { count, rate } from "../format";
import { link } from "../router";
import { delivered, published, rateNow, sent, type Sample } from "../samples";
import { sinkKind, type Document } from "../subscription/words";

/** `flows`, nothing comes now, somebody stopped it, or it does not get through. */
export type State = "flows" | "idle" | "paused" | "failing";

export interface Node {
  id: string;
  column: number;
  title: string;
  /** The line under the title. */
  note: string;
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

export const COLUMNS = ["Senders", "Routes", "Topics", "Subscriptions", "Targets"] as const;

/** `senders`: the producers of the configuration; without any, whoever reaches the listener may send. */
export function graphOf(status: Status, listed: ListedSubscription[], senders: Sender[], samples: Sample[]): Graph {
  const graph: Graph = { nodes: [], lines: [] };
  addSenders(graph, status, senders, samples);
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

function addSenders(graph: Graph, status: Status, senders: Sender[], samples: Sample[]): void {
  const names = status.routes.map((each) => each.name);
  for (const { name, routes } of senders) {
    const own = rateNow(samples, sent(name));
    const may = names.filter((each) => routes.some((pattern) => fits(pattern, each)));
    const note = `${rate(own)} /s`;
    add(graph, { id: `from ${name}`, column: 0, title: name, note, state: moving(own), href: link(["producers", name]), kind: "Producer" });
    for (const route of may)
      graph.lines.push({ from: `from ${name}`, to: `route ${route}`, rate: may.length === 1 ? own : null, state: moving(own) });
  }
  for (const intake of status.intakes ?? []) {
    const note = `${rate(intake.events_per_second)} /s`;
    const state = moving(intake.events_per_second);
    add(graph, { id: `in ${intake.name}`, column: 0, title: `/in/${intake.name}`, note, state, href: link(["producers"]), kind: "Intake" });
    for (const route of names) graph.lines.push({ from: `in ${intake.name}`, to: `route ${route}`, rate: null, state });
  }
  if (senders.length) return;
  const all = { id: "anybody", column: 0, title: "Anybody", href: link(["producers"]), kind: "Senders" };
  add(graph, { ...all, note: "the listener is open", state: "idle" });
  for (const route of names) {
    const now = rateNow(samples, published(route));
    graph.lines.push({ from: "anybody", to: `route ${route}`, rate: now, state: moving(now) });
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
  const near = graph.lines.filter((each) => each.from === node.id || each.to === node.id);
  if (node.state === "idle" && near.some((each) => each.state === "flows")) node.state = "flows";
  const mirrors = listed.filter((each) => targetOf(each.id, each.document).topic === node.id);
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
  const pulled = sinkKind(document) === "pull";
  const state = pulled && health.paused_for !== null ? "paused" : stateOf(health, now);
  const note = state === "flows" || state === "idle" ? `lag ${count(health.lag)}` : pulled ? "waits to be pulled" : noteOf(health);
  add(graph, { id, column: 3, title: name, note, state, href: link(["subscriptions", name]), kind: "Subscription" });
  const source = document.source as { broker: string; topics: string[] };
  for (const topic of source.topics) {
    const from = addTopic(graph, status, source.broker, topic);
    graph.lines.push({ from, to: id, rate: source.topics.length === 1 ? now : null, state });
  }
  graph.lines.push({ from: id, to: addTarget(graph, name, document, state), rate: now, state });
}

/** Its attempts fail, or a person or its target stopped it. */
function stateOf(health: SubscriptionHealth, now: number | null): State {
  if (["disabled", "broken", "restarting", "stopped"].includes(health.state)) return "failing";
  if (health.broker_health.healthy === false || health.paused_for !== null || health.parked.rows) return "failing";
  if (health.state === "paused") return "paused";
  return moving(now);
}

function noteOf(health: SubscriptionHealth): string {
  if (health.broker_health.healthy === false) return "broker does not answer";
  if (health.parked.rows) return `${count(health.parked.rows)} parked`;
  if (health.paused_for !== null) return "its target fails";
  return `${health.state}, lag ${count(health.lag)}`;
}

function addTarget(graph: Graph, name: string, document: Document, state: State): string {
  const { title, note, id } = targetOf(name, document);
  const known = graph.nodes.find((each) => each.id === id);
  const shared = known && known.state === "flows" ? "flows" : state;
  if (known) known.state = shared;
  else add(graph, { id, column: 4, title, note, state, href: link(["subscriptions", name]), kind: "Target" });
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
