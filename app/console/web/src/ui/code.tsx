import type { ComponentChildren } from "preact";

import { Copy } from "./copy";

/** A text in a fixed font, with a button that copies it. `label` names it for a screen reader. */
export function Code({ text, label, children }: { text: string; label: string; children?: ComponentChildren }) {
  return (
    <figure class="code">
      <figcaption>
        <span>{label}</span>
        <Copy value={text} label={`Copy: ${label}`} />
      </figcaption>
      <pre tabIndex={0} aria-label={label}>{children ?? text}</pre>
    </figure>
  );
}

/** JSON as a text: indented and coloured, its numbers as they were written. */
export function JsonText({ text, label }: { text: string; label: string }) {
  const shown = indented(text);
  return (
    <Code text={shown} label={label}>
      {coloured(shown)}
    </Code>
  );
}

const PART = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Indents JSON by its tokens: read as values, 1.10 would become 1.1, and 2^53 + 1 another number. */
export function indented(text: string): string {
  let out = "";
  let depth = 0;
  let last = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [part] of text.matchAll(PART)) {
    const opened = last === "{" || last === "[";
    if (part === "}" || part === "]") {
      depth -= 1;
      out += opened ? part : line() + part;
    } else if (part === "," || part === ":") out += part === ":" ? ": " : part;
    else {
      out += opened || last === "," ? line() + part : part;
      if (part === "{" || part === "[") depth += 1;
    }
    last = part;
  }
  return out;
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const LARGEST_COLOURED = 200_000; // characters; more elements would make the page slow

function coloured(text: string): ComponentChildren {
  if (text.length > LARGEST_COLOURED) return text;
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.push(text.slice(at, found.index));
    const kind = found[2] !== undefined ? "name" : found[1] !== undefined ? "text" : found[3] ? "word" : "number";
    parts.push(<span class={`j-${kind}`}>{found[1] ?? found[0]}</span>, found[2] ?? "");
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}
