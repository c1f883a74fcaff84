// Drawn on a grid of 20, one stroke width: no icon font, no picture files.

const PATHS = {
  overview: "M3 11h4v6H3zM8.5 3h4v14h-4zM14 7.5h3.5V17H14z",
  flow: "M3 5h4v4H3zM13 3h4v4h-4zM13 13h4v4h-4zM7 7h3m0 0V5h3m-3 2v8h3",
  events: "M3 5h14M3 10h14M3 15h9",
  subscriptions: "M4 4h12v8H4zM4 7.5h12M10 12v5m0 0-2.5-2.5M10 17l2.5-2.5",
  letters: "M3 5h14v10H3zM3 6l7 5 7-5",
  explain: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3zm3.8 8.8L17 17",
  producers: "M3 10h9m0 0L8.5 6.5M12 10l-3.5 3.5M13 4h4v12h-4",
  audit: "M5 3h10v14H5zM7.5 7h5M7.5 10h5M7.5 13h3",
  configuration: "M3 6h8m4 0h2M3 14h2m4 0h8M13 4v4M7 12v4",
  keyboard: "M2.5 5.5h15v9h-15zM5.5 8.5h0m3 0h0m3 0h0m3 0h0M6.5 11.5h7",
  out: "M8 4H4v12h4M9 10h8m0 0-3-3m3 3-3 3",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v2m0 12v2M2 10h2m12 0h2M4.5 4.5 6 6m8 8 1.5 1.5m0-11L14 6m-8 8-1.5 1.5",
  moon: "M16 12.5A7 7 0 0 1 7.5 4a6.5 6.5 0 1 0 8.5 8.5z",
  contrast: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 3v14",
  copy: "M7 7h9v10H7zM13 7V3H4v10h3",
  check: "M4 10.5 8 14.5 16 6",
  warning: "M10 3 18 17H2zM10 8v4m0 2.5v0",
  pause: "M7 4v12M13 4v12",
  play: "M6 4l10 6-10 6z",
  replay: "M4 10a6 6 0 1 0 2-4.5M6 2v3.5h3.5",
  plus: "M10 4v12M4 10h12",
  close: "M5 5l10 10M15 5 5 15",
  down: "M5 8l5 5 5-5",
  edit: "M4 16l.8-3.5L13 4.3l2.7 2.7-8.2 8.2z",
  send: "M3 10 17 4l-4 13-3-5.5z",
  trash: "M4 6h12M8 6V4h4v2M6 6l.7 11h6.6L14 6",
} as const;

export type IconName = keyof typeof PATHS;

/** Decoration: what it stands beside, or the button's label, says the same in words. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The bridge. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" />
      <path d="M4 21h24M8 21v-9M24 21v-9M8 12q8 11 16 0M4 17q2.5-1 4-5M28 17q-2.5-1-4-5M12 21v-4.6M16 21v-3.5M20 21v-4.6" />
    </svg>
  );
}
