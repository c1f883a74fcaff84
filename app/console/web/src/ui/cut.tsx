// Texts that are cut in their middle where the place is narrow. The page holds the whole text: it is the title, and what
// a selection copies.

import type { ComponentChildren } from "preact";

const TAIL = 8; // characters of an identifier that stay

/** Widths in characters of one width: those of most fonts are narrower on average. */
const wide = (text: string) => `${text.length}ch`;

interface PartsProps {
  text: string;
  children: ComponentChildren;
}

/** The whole text for a screen reader, and its parts for the eye: a name must not have a gap where a part ends. */
function Parts({ text, children }: PartsProps) {
  return (
    <span class="cut" title={text}>
      <span class="unseen">{text}</span>
      <span class="cut-parts" aria-hidden="true">
        {children}
      </span>
    </span>
  );
}

/** An identifier: its end tells it from the next one. */
export function Cut({ text, tail = TAIL }: { text: string; tail?: number }) {
  if (text.length <= tail + 4) return <span title={text}>{text}</span>;
  const at = text.length - tail;
  return (
    <Parts text={text}>
      <span style={{ maxWidth: `calc(100% - ${wide(text.slice(at))})` }}>{text.slice(0, at)}</span>
      {text.slice(at)}
    </Parts>
  );
}

const ADDRESS = /^(?:https?:\/\/)?([^/:]+|\[[^\]]*\])(:\d+)?(\/.*)?$/;

/** The address of a target: its port and its last path segment stay. */
export function CutAddress({ address }: { address: string }) {
  const [, host = "", port = "", path = ""] = ADDRESS.exec(address) ?? [];
  if (!host) return <Cut text={address} />;
  const at = Math.max(0, path.lastIndexOf("/", path.length - 2));
  const [middle, last] = [path.slice(0, at), path.slice(at)];
  const free = `(100% - ${wide(port + last)})`;
  return (
    <Parts text={address}>
      <span style={{ maxWidth: middle ? `calc(${free} * 0.6)` : `calc${free}` }}>{host}</span>
      {port}
      {middle && <span style={{ maxWidth: `calc(${free} * 0.4)` }}>{middle}</span>}
      {last}
    </Parts>
  );
}
