import type { ComponentChildren } from "preact";

interface HeadProps {
  title: ComponentChildren;
  /** Pages above it: titles and addresses. */
  above?: [string, string][];
  /** One line under the title. */
  note?: ComponentChildren;
  actions?: ComponentChildren;
}

/** The head of a page: its way up, its title, its actions. */
export function Head({ title, above = [], note, actions }: HeadProps) {
  return (
    <header class="head">
      <div>
        {above.length > 0 && (
          <nav class="crumbs" aria-label="Above this page">
            {above.map(([name, address]) => (
              <a key={address} href={address}>
                {name}
              </a>
            ))}
          </nav>
        )}
        <h1>{title}</h1>
        {note && <p class="note">{note}</p>}
      </div>
      {actions && <div class="actions">{actions}</div>}
    </header>
  );
}

/** A titled part of a page. */
export function Card(props: { title?: ComponentChildren; actions?: ComponentChildren; class?: string; children: ComponentChildren }) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      {(props.title || props.actions) && (
        <header>
          <h2>{props.title}</h2>
          {props.actions && <div class="actions">{props.actions}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

/** One figure with its name. `tone` colours it where it needs a look. */
export function Figure(props: { name: string; value: ComponentChildren; unit?: string; tone?: "warn" | "bad"; href?: string }) {
  const inside = (
    <>
      <span class="figure-name">{props.name}</span>
      <span class={`figure-value ${props.tone ?? ""}`}>
        {props.value}
        {props.unit && <small> {props.unit}</small>}
      </span>
    </>
  );
  return props.href ? <a class="figure" href={props.href}>{inside}</a> : <div class="figure">{inside}</div>;
}

interface Tab {
  id: string;
  title: ComponentChildren;
  href: string;
}

/** Parts of a page that have their own addresses. */
export function Tabs({ tabs, current, label }: { tabs: Tab[]; current: string; label: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((each) => (
        <a key={each.id} href={each.href} aria-current={each.id === current ? "page" : undefined}>
          {each.title}
        </a>
      ))}
    </nav>
  );
}
