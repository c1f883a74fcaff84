import type { ComponentChildren } from "preact";

export type Tone = "ok" | "busy" | "warn" | "bad" | "quiet";

/** A state in one word. The dot repeats the colour; the word carries the meaning. */
export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

const TONES: Record<string, Tone> = {
  running: "ok",
  healthy: "ok",
  delivered: "ok",
  ok: "ok",
  starting: "busy",
  restarting: "warn",
  stopping: "busy",
  retry: "warn",
  unsent: "warn",
  paused: "warn",
  elsewhere: "quiet",
  stopped: "quiet",
  disabled: "bad",
  broken: "bad",
  "dead-letter": "bad",
  disable: "bad",
  refused: "bad",
};

/** The tone of a state or an outcome of the API. */
export function toneOf(state: string): Tone {
  return TONES[state] ?? "quiet";
}
