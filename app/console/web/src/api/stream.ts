// Server-sent events by fetch: unlike EventSource it shows the problem that a refusal carries.
import { ApiError, send } from "./client";
import type { Problem } from "./types";

interface ServerEvent {
  /** `message` where the stream names none. */
  name: string;
  data: string;
  id: string;
}

interface StreamHandlers {
  event: (event: ServerEvent) => void;
  /** The stream is open. Also after each reconnection. */
  open?: () => void;
  /** It ended or was refused. `again`: it is tried once more by itself. */
  problem?: (problem: Problem, again: boolean) => void;
}

const RECONNECT_MS = 1000;

/** Follows a stream until the returned function is called. It reconnects where it stopped. */
export function follow(url: string, handlers: StreamHandlers): () => void {
  const control = new AbortController();
  void run(url, handlers, control.signal);
  return () => control.abort();
}

async function run(url: string, handlers: StreamHandlers, signal: AbortSignal): Promise<void> {
  const state = { id: "" };
  while (!signal.aborted) {
    try {
      await once(url, state, handlers, signal);
    } catch (error) {
      if (signal.aborted) return;
      const again = !(error instanceof ApiError) || error.status === 0 || error.status >= 500;
      if (error instanceof ApiError) handlers.problem?.(error.problem, again);
      if (!again) return;
    }
    await pause(RECONNECT_MS, signal);
  }
}

async function once(
  url: string,
  state: { id: string },
  handlers: StreamHandlers,
  signal: AbortSignal,
): Promise<void> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (state.id) headers["last-event-id"] = state.id;
  const answer = await send("GET", url, { headers, signal });
  handlers.open?.();
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    for (const block of blocks) read(block, state, handlers);
  }
}

function read(block: string, state: { id: string }, handlers: StreamHandlers): void {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (field === "id") state.id = value;
    else if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }
  if (data.length) handlers.event({ name, data: data.join("\n"), id: state.id });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
