// Keys of the whole console: `g` and a letter goes to a page, `/` to the search field, `?` shows them.
import { useEffect } from "preact/hooks";

import { go } from "./router";

const LEADER_MS = 1500;

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}

/** `keys`: by letter, the address that follows `g`. */
export function useKeys(keys: Record<string, string>, help: () => void): void {
  useEffect(() => {
    let leader = 0;
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "/") search(event);
      else if (event.key === "?") help();
      else if (event.key === "g") leader = event.timeStamp;
      else if (leader && event.timeStamp - leader < LEADER_MS && keys[event.key]) go(keys[event.key]!);
      if (event.key !== "g") leader = 0;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

/** The search field of the page, or else the page of events. */
function search(event: KeyboardEvent): void {
  event.preventDefault();
  const field = document.querySelector<HTMLInputElement>("main input[type=search]");
  if (field) field.focus();
  else go("#/events");
}
