import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import type { Problem } from "../api/types";
import { Icon } from "./icons";
import { ProblemBox } from "./problem";

interface DialogProps {
  open: boolean;
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** Buttons at its foot. */
  actions?: ComponentChildren;
  wide?: boolean;
}

/** The browser's own modal dialog: it keeps the focus inside, and Esc closes it. */
export function Dialog({ open, title, onClose, children, actions, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  if (!open) return null;
  return (
    <dialog ref={dialog} class={wide ? "wide" : undefined} aria-labelledby={heading} onClose={onClose}>
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div class="dialog-body">{children}</div>
      {actions && <footer>{actions}</footer>}
    </dialog>
  );
}

interface ConfirmProps {
  open: boolean;
  title: string;
  /** On the button that acts: a verb. */
  verb: string;
  /** The word to type first; without it the button acts at once. */
  word?: string;
  danger?: boolean;
  busy?: boolean;
  problem?: Problem | undefined;
  onConfirm: () => void;
  onClose: () => void;
  children: ComponentChildren;
}

/** Asks before it acts. What cannot be taken back demands a typed word. */
export function Confirm(props: ConfirmProps) {
  const [typed, set] = useState("");
  useEffect(() => set(""), [props.open]);
  const ready = !props.word || typed === props.word;
  const confirm = (event: Event) => {
    event.preventDefault();
    if (ready && !props.busy) props.onConfirm();
  };
  return (
    <Dialog open={props.open} title={props.title} onClose={props.onClose}>
      <form onSubmit={confirm}>
        {props.children}
        {props.word && (
          <label class="field">
            <span>
              Type <code>{props.word}</code> to confirm
            </span>
            <input
              value={typed}
              onInput={(event) => set(event.currentTarget.value)}
              autocomplete="off"
              spellcheck={false}
              autofocus
            />
          </label>
        )}
        {props.problem && <ProblemBox problem={props.problem} />}
        <div class="actions">
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class={props.danger ? "danger" : "primary"} disabled={!ready || props.busy}>
            {props.verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
