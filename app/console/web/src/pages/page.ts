import type { ComponentType } from "preact";

import type { Scope } from "../api/types";
import type { IconName } from "../ui/icons";

export interface PageProps {
  /** Decoded segments of the address after the page's id. */
  path: string[];
  query: URLSearchParams;
}

/** One entry of the navigation. */
export interface Page {
  /** First segment of its address. */
  id: string;
  title: string;
  /** The letter that goes here after `g`. */
  key: string;
  icon: IconName;
  group: "Watch" | "Work" | "Service";
  /** Without it the page is not in the navigation. */
  scope: Scope;
  /** True if its tables use the whole width of the window. */
  wide?: boolean;
  component: ComponentType<PageProps>;
}
