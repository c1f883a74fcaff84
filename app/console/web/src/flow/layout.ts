// Where nodes and lines stand. Nodes of a column follow their predecessors, so that few lines cross.
import { COLUMNS, type Graph, type Line, type Node } from "./graph";

export const WIDTH = 164;
export const HEIGHT = 62;
const GAP_X = 68;
const LEAD = 36; // of a line, straight: its rate stands above
const GAP_Y = 14;
const TOP = 36;

export interface Placed extends Node {
  x: number;
  y: number;
}

export interface Drawn extends Line {
  path: string;
  /** The place of its rate. */
  x: number;
  y: number;
  label: string;
}

interface Picture {
  width: number;
  height: number;
  nodes: Placed[];
  lines: Drawn[];
}

export function columnX(column: number): number {
  return column * (WIDTH + GAP_X);
}

export function layout(graph: Graph): Picture {
  const columns = COLUMNS.map((_, column) => graph.nodes.filter((each) => each.column === column));
  const order = new Map<string, number>();
  for (const nodes of columns) {
    nodes.sort((a, b) => wished(a, graph, order) - wished(b, graph, order));
    nodes.forEach((each, index) => order.set(each.id, index / nodes.length));
  }
  const most = Math.max(1, ...columns.map((each) => each.length));
  const height = TOP + most * (HEIGHT + GAP_Y);
  const placed = columns.flatMap((nodes, column) => {
    const free = height - TOP - nodes.length * (HEIGHT + GAP_Y);
    const between = nodes.length ? free / nodes.length : 0;
    const step = HEIGHT + GAP_Y + Math.min(between, HEIGHT);
    const start = TOP + (height - TOP - nodes.length * step) / 2 + (step - HEIGHT) / 2;
    return nodes.map((each, index) => ({ ...each, x: columnX(column), y: start + index * step }));
  });
  const at = new Map(placed.map((each) => [each.id, each]));
  const lines = graph.lines.flatMap((each) => drawn(each, at, graph));
  return { width: columnX(COLUMNS.length - 1) + WIDTH + 2, height, nodes: placed, lines };
}

/** The mean place of those before it; those that nothing leads to come last. */
function wished(node: Node, graph: Graph, order: Map<string, number>): number {
  const before = graph.lines.filter((each) => each.to === node.id).map((each) => order.get(each.from) ?? 0);
  if (!before.length) return node.column === 0 ? 0 : 2;
  return before.reduce((total, each) => total + each, 0) / before.length;
}

/** The rate stands at the end where fewer lines meet. */
function drawn(line: Line, at: Map<string, Placed>, graph: Graph): Drawn[] {
  const [from, to] = [at.get(line.from), at.get(line.to)];
  if (!from || !to) return [];
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const leaving = graph.lines.filter((each) => each.from === line.from).length;
  const coming = graph.lines.filter((each) => each.to === line.to).length;
  const label = `${from.title} to ${to.title}`;
  if (leaving < coming) {
    const path = `M${x1} ${y1}H${x1 + LEAD}${curve(x1 + LEAD, y1, x2, y2)}`;
    return [{ ...line, path, x: x1 + LEAD / 2, y: y1 - 7, label }];
  }
  const path = `M${x1} ${y1}${curve(x1, y1, x2 - LEAD, y2)}H${x2}`;
  return [{ ...line, path, x: x2 - LEAD / 2, y: y2 - 7, label }];
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const bend = (x2 - x1) / 2;
  return `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
