import { render } from "preact";

import { App } from "./app";
import { SessionGate } from "./session";
import { StatusPoll } from "./status";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/components.css";
import "./styles/pages.css";
import { applyTheme } from "./theme";

applyTheme();
render(
  <SessionGate>
    <StatusPoll>
      <App />
    </StatusPoll>
  </SessionGate>,
  document.getElementById("app")!,
);
