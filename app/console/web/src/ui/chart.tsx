// A line chart by uPlot in the colours of the theme. The heading is its legend: it shows the newest values, or
// those under the pointer.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { tickCount } from "../format";

export type Colour = "accent" | "ok" | "warn" | "bad" | "ink-3";

interface Series {
  name: string;
  colour: Colour;
  values: (number | null)[];
  /** The area under it is filled. */
  fill?: boolean;
}

interface ChartProps {
  title: string;
  /** Seconds since the epoch, ascending. */
  times: number[];
  series: Series[];
  format: (value: number | null | undefined) => string;
  /** Beside the axis; without it numbers as they are. */
  ticks?: (value: number) => string;
  unit?: string;
  height?: number;
}

const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const second = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

const SHORT = 420; // seconds

export function Chart(props: ChartProps) {
  const { title, times, series, format, unit, height = 132 } = props;
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const shown = useRef(props);
  shown.current = props;
  const [at, setAt] = useState<number | null>(null);
  const theme = useTheme();
  const names = series.map((each) => each.name + each.colour).join();
  useEffect(() => {
    const element = holder.current!;
    const made = new uPlot(optionsOf(shown, element.clientWidth, height, setAt), dataOf(shown.current), element);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
    };
  }, [theme, names, height]);
  useEffect(() => plot.current?.setData(dataOf(props)), [times, series]);
  const index = at ?? times.length - 1;
  const words = series.map((each) => `${each.name} ${format(each.values[index])}${unit ? ` ${unit}` : ""}`);
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <span class="legend">
          {at !== null && <span class="chart-time">{second.format(times[at]! * 1000)}</span>}
          {series.map((each) => (
            <span key={each.name} class={`legend-item ${each.colour}`}>
              {each.name} <b>{format(each.values[index])}</b> {unit}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={holder} role="img" data-seconds={spanOf(times)} aria-label={`${title}: ${words.join(", ")}`} />
    </figure>
  );
}

/** Seconds from the first point to the last. */
function spanOf(times: number[]): number {
  return times.length ? Math.round(times.at(-1)! - times[0]!) : 0;
}

function dataOf({ times, series }: ChartProps): uPlot.AlignedData {
  return [times, ...series.map((each) => each.values)] as uPlot.AlignedData;
}

function optionsOf(
  props: { current: ChartProps },
  width: number,
  height: number,
  onPoint: (index: number | null) => void,
): uPlot.Options {
  const grid = { stroke: colourOf("line"), width: 1 };
  const axis = { stroke: colourOf("ink-3"), grid, ticks: { show: false }, font: `12px ${fontOf()}` };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 24, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 96, values: (u, at) => at.map((s) => timeOn(u, s)) },
      { ...axis, size: 56, space: 36, values: (_, at) => at.map(props.current.ticks ?? tickCount) },
    ],
    series: [
      {},
      ...props.current.series.map((each) => ({
        stroke: colourOf(each.colour),
        width: 1.5,
        points: { show: false },
        spanGaps: true,
        ...(each.fill ? { fill: faded(colourOf(each.colour)) } : {}),
      })),
    ],
    hooks: { setCursor: [(u) => onPoint(u.cursor.idx ?? null)] },
  };
}

/** Counts the changes of the theme: a canvas does not follow the style sheet. */
function useTheme(): number {
  const [changes, set] = useState(0);
  useEffect(() => {
    const changed = () => set((n) => n + 1);
    addEventListener("themechange", changed);
    return () => removeEventListener("themechange", changed);
  }, []);
  return changes;
}

/** What a colour of the theme is now, as `rgb(…)`. */
function colourOf(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** With seconds where minutes would repeat themselves. */
function timeOn(u: uPlot, seconds: number): string {
  const { min = 0, max = 0 } = u.scales.x!;
  if (u.data[0].length < 2) return ""; // one point has no range
  return (max! - min! < SHORT ? second : hour).format(seconds * 1000);
}

function faded(rgb: string): string {
  return rgb.replace("rgb(", "rgba(").replace(")", ", 0.12)");
}

function fontOf(): string {
  return getComputedStyle(document.body).fontFamily;
}
