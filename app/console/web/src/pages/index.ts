// Every page of the console, in the order of the navigation. A page is one file that exports its `Page`.
import { audit } from "./audit";
import { configuration } from "./configuration";
import { events } from "./events";
import { explainPage } from "./explain";
import { flow } from "./flow";
import { letters } from "./letters";
import { overview } from "./overview";
import type { Page } from "./page";
import { producers } from "./producers";
import { subscriptions } from "./subscriptions";

export const pages: Page[] = [
  overview,
  flow,
  events,
  subscriptions,
  letters,
  explainPage,
  producers,
  audit,
  configuration,
];
