import type { ComponentChildren } from "preact";

import { Icon, type IconName } from "./icons";

/** Nothing to show yet, and how that changes. */
export function Empty(props: { title: string; icon?: IconName; children?: ComponentChildren }) {
  return (
    <div class="empty">
      {props.icon && <Icon name={props.icon} />}
      <h3>{props.title}</h3>
      <div>{props.children}</div>
    </div>
  );
}

/** Where an answer has not come yet. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div class="loading" role="status">
      {what} …
    </div>
  );
}
