import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { useKeys } from "./keyboard";
import { pages } from "./pages";
import type { Page } from "./pages/page";
import { link, useRoute } from "./router";
import { useSession } from "./session";
import { useStatus } from "./status";
import { setTheme, theme } from "./theme";
import { Dialog } from "./ui/dialog";
import { Empty } from "./ui/empty";
import { Icon, Mark } from "./ui/icons";
import { ProblemBox } from "./ui/problem";

export function App() {
  const route = useRoute();
  const { may } = useSession();
  const [help, setHelp] = useState(false);
  const shown = useMemo(() => pages.filter((each) => may(each.scope)), [may]);
  const page = pages.find((each) => each.id === (route.page || "overview"));
  useKeys(Object.fromEntries(pages.map((each) => [each.key, link([each.id])])), () => setHelp(true));
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    document.title = page ? `${page.title} · Skybridge` : "Skybridge";
    main.current?.scrollTo(0, 0);
    document.querySelector(".sidebar [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [page, route.path.join("/")]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <Sidebar pages={shown} current={page?.id} onHelp={() => setHelp(true)} />
      <main id="main" class={page?.wide ? "wide" : undefined} ref={main} tabIndex={-1}>
        <Unreachable />
        {page ? <page.component key={page.id} path={route.path} query={route.query} /> : <Nowhere />}
      </main>
      <Keys open={help} onClose={() => setHelp(false)} pages={shown} />
    </div>
  );
}

function Sidebar({ pages, current, onHelp }: { pages: Page[]; current: string | undefined; onHelp: () => void }) {
  const groups = ["Watch", "Work", "Service"] as const;
  return (
    <div class="sidebar">
      <a class="brand" href="#/" aria-label="Skybridge, overview">
        <Mark /> Skybridge
      </a>
      <nav aria-label="Pages">
        {groups.map((group) => {
          const inside = pages.filter((each) => each.group === group);
          if (!inside.length) return null;
          return (
            <section key={group}>
              <h2>{group}</h2>
              <ul>
                {inside.map((each) => (
                  <li key={each.id}>
                    <a href={link([each.id])} aria-current={each.id === current ? "page" : undefined}>
                      <Icon name={each.icon} />
                      <span>{each.title}</span>
                    </a>
                  </li>
                ))}
              </ul>
            </section>
          );
        })}
      </nav>
      <Foot onHelp={onHelp} />
    </div>
  );
}

/** Which process answers, by which token, and the switches. */
function Foot({ onHelp }: { onHelp: () => void }) {
  const { session, logout } = useSession();
  const { value } = useStatus();
  return (
    <div class="foot">
      {value && (
        <dl>
          <dt>Process</dt>
          <dd title={value.installation}>
            {value.roles.join(" and ")}, version {value.version}
          </dd>
          <dt>Signed in as</dt>
          <dd title={session.scopes.join(", ")}>{session.name}</dd>
        </dl>
      )}
      <div class="switches">
        <ThemeSwitch />
        <button class="quiet" onClick={onHelp} aria-label="Keys of the keyboard" title="Keys (?)">
          <Icon name="keyboard" />
        </button>
        {session.login_required && (
          <button class="quiet" onClick={() => void logout()} aria-label="Sign out" title="Sign out">
            <Icon name="out" />
          </button>
        )}
      </div>
    </div>
  );
}

const NEXT = { system: "light", light: "dark", dark: "system" } as const;
const LOOK = { system: "System", light: "Light", dark: "Dark" } as const;

function ThemeSwitch() {
  const [now, set] = useState(theme);
  const change = () => {
    setTheme(NEXT[now]);
    set(NEXT[now]);
  };
  const icon = now === "system" ? "contrast" : now === "light" ? "sun" : "moon";
  return (
    <button class="quiet" onClick={change} aria-label={`Colours: ${LOOK[now]}`} title={`Colours: ${LOOK[now]}`}>
      <Icon name={icon} />
    </button>
  );
}

/** Above every page: what it shows may be old. */
function Unreachable() {
  const { problem, reload } = useStatus();
  return problem ? <ProblemBox problem={problem} onRetry={reload} /> : null;
}

function Nowhere() {
  return (
    <Empty title="No such page" icon="flow">
      The address names no page of the console. <a href="#/">Go to the overview</a>.
    </Empty>
  );
}

function Keys({ open, onClose, pages }: { open: boolean; onClose: () => void; pages: Page[] }) {
  return (
    <Dialog open={open} onClose={onClose} title="Keys">
      <dl class="keys">
        <dt><kbd>/</kbd></dt>
        <dd>Search on this page, or else for an event</dd>
        {pages.map((each) => (
          <div key={each.id}>
            <dt><kbd>g</kbd> <kbd>{each.key}</kbd></dt>
            <dd>{each.title}</dd>
          </div>
        ))}
        <dt><kbd>Esc</kbd></dt>
        <dd>Close a dialog</dd>
        <dt><kbd>?</kbd></dt>
        <dd>These keys</dd>
      </dl>
    </Dialog>
  );
}
