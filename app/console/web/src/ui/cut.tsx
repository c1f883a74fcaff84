// Texts that are cut in their middle where the place is narrow. The page holds the whole text: it is the title, and what
// a selection copies.

import type { ComponentChildren } from "preact";

const TAIL = 8; // characters of an identifier that stay
export const TYPE_TAIL = 12; // of a type: those of one producer differ at their end

const NARROW = /[-.,:;'|!()[\]/ fijlrtI]/g;
const BROAD = /[A-HJ-Zmw@%]/g;

/** At least the width of a text. The style sheet has the widths of its narrow and broad letters; others are as wide as
 * a digit. */
function wide(text: string): string {
  const [narrow, broad] = [NARROW, BROAD].map((letters) => text.match(letters)?.length ?? 0);
  return `(${text.length - narrow! - broad!} * 1ch + ${narrow} * var(--narrow) + ${broad} * var(--broad))`;
}

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
  if (text.length <= tail) return <span title={text}>{text}</span>;
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
