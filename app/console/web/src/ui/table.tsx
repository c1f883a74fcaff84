// A table that draws only the rows in sight: as quick with a hundred thousand rows as with ten.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers stand at the right, in figures of one width. */
  number?: boolean;
  /** CSS width: "8rem". The columns without one share what is left. */
  width?: string;
  /** Left out where the window is narrow. */
  spare?: boolean;
  /** On a telephone: its width there, or `false` to leave it out. */
  phone?: string | false;
  /** On a telephone its title is for a screen reader only: it is wider than its cells. */
  unnamed?: boolean;
}

interface TableProps<T> {
  /** What the table lists, for a screen reader. */
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string | number;
  /** Of all rows, where `rows` is only the loaded part. */
  total?: number | undefined;
  /** Called when the last loaded rows come into sight. */
  onEnd?: (() => void) | undefined;
  /** A click on a row outside its links and buttons. The first cell should hold a link for the keyboard. */
  onOpen?: (row: T) => void;
  /** A class of a row. */
  rowClass?: (row: T) => string | undefined;
  /** Of one row, in pixels, as in the style sheet. */
  rowHeight?: number;
}

const ROW = 40;
const AROUND = 8; // rows drawn beyond the edges
const ALL = 60; // rows that are drawn without a window

export function Table<T>(props: TableProps<T>) {
  const { columns, rows, rowHeight = ROW } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = scroller.current!;
    const look = () => setSeen({ top: element.scrollTop, height: element.clientHeight });
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  const whole = rows.length <= ALL;
  const first = whole ? 0 : Math.max(0, Math.min(rows.length, Math.floor(seen.top / rowHeight)) - AROUND);
  const last = whole ? rows.length : Math.min(rows.length, Math.ceil((seen.top + seen.height) / rowHeight) + AROUND);
  const ended = last >= rows.length && rows.length > 0;
  useLayoutEffect(() => {
    if (ended) props.onEnd?.();
  }, [ended, rows.length]);
  const scrolled = () => {
    const element = scroller.current!;
    setSeen({ top: element.scrollTop, height: element.clientHeight });
  };
  return (
    <div class={whole ? "table" : "table windowed"} ref={scroller} onScroll={whole ? undefined : scrolled} tabIndex={0}
      role="region" aria-label={props.label}>
      <table aria-rowcount={(props.total ?? rows.length) + 1} aria-label={props.label}>
        <colgroup>
          {columns.map((each) => (
            <col key={each.title} class={classOf(each)} style={widthOf(each)} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((each) => (
              <th key={each.title} scope="col" class={classOf(each)}>
                <span class={each.unnamed ? "unseen-on-phone" : undefined}>{each.title}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Space height={first * rowHeight} />
          {rows.slice(first, last).map((row, index) => (
            <Row key={props.keyOf(row)} row={row} index={first + index} table={props} />
          ))}
          <Space height={(rows.length - last) * rowHeight} />
        </tbody>
      </table>
    </div>
  );
}

function Row<T>({ row, index, table }: { row: T; index: number; table: TableProps<T> }) {
  const clicked = (event: MouseEvent) => {
    const inside = event.target instanceof Element && event.target.closest("a, button, input, label, summary");
    if (!inside && !getSelection()?.toString()) table.onOpen?.(row);
  };
  const names = [table.rowClass?.(row), table.onOpen && "opens"].filter(Boolean).join(" ");
  return (
    <tr aria-rowindex={index + 2} class={names || undefined} onClick={table.onOpen ? clicked : undefined}>
      {table.columns.map((each) => (
        <td key={each.title} class={classOf(each)}>
          {each.cell(row)}
        </td>
      ))}
    </tr>
  );
}

function classOf<T>(column: Column<T>): string | undefined {
  return [column.number && "number", column.spare && "spare", column.phone === false && "no-phone"].filter(Boolean).join(" ") || undefined;
}

/** The style sheet chooses by the width of the window. */
function widthOf<T>(column: Column<T>) {
  const { width = "auto", phone } = column;
  return { "--width": width, "--phone": phone || width };
}

/** In the place of the rows out of sight. */
function Space({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    <tr aria-hidden="true" class="space">
      <td style={{ height: `${height}px` }} />
    </tr>
  );
}
