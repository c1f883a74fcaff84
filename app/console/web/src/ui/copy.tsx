import { useState } from "preact/hooks";

import { Icon } from "./icons";

/** Copies a text. `label` says what: "Copy as curl". With `text` it shows the label beside its icon. */
export function Copy({ value, label, text = false }: { value: string | (() => string); label: string; text?: boolean }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await write(typeof value === "string" ? value : value());
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return (
    <button type="button" class="quiet copy" onClick={() => void copy()} aria-label={label} title={label}>
      <Icon name={done ? "check" : "copy"} />
      {text && <span>{label}</span>}
      <span class="unseen" role="status">{done ? "Copied" : ""}</span>
    </button>
  );
}

/** The clipboard of a page that is not on loopback and has no TLS is closed to scripts: the old way remains. */
async function write(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
