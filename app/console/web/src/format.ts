// Numbers and times for people, by the browser's locale.

const whole = new Intl.NumberFormat();
const tenths = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const stamp = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const dayAndClock = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  hour: "numeric",
  minute: "2-digit",
  second: "2-digit",
});
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayAndYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const tick = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "long" });

export const NONE = "–";

type Maybe = number | null | undefined;
const missing = (value: Maybe): value is null | undefined => value === null || value === undefined || Number.isNaN(value);

export function count(value: Maybe): string {
  return missing(value) ? NONE : whole.format(value);
}

/** 500, 12.5K: a number beside an axis. */
export function tickCount(value: Maybe): string {
  return missing(value) ? NONE : tick.format(value);
}

/** 0, 500 ms, 1.5 s: a duration beside an axis. */
export function tickMilliseconds(value: Maybe): string {
  if (missing(value) || value === 0) return tickCount(value);
  return value >= 1000 ? `${tick.format(value / 1000)} s` : `${tick.format(value)} ms`;
}

/** Events a second, without the unit. */
export function rate(value: Maybe): string {
  if (missing(value)) return NONE;
  return value !== 0 && value < 100 ? tenths.format(value) : whole.format(Math.round(value));
}

export function milliseconds(value: Maybe): string {
  if (missing(value)) return NONE;
  if (value === 0) return "0 ms";
  if (value >= 1000) return `${tenths.format(value / 1000)} s`;
  return value < 10 ? `${tenths.format(value)} ms` : `${whole.format(Math.round(value))} ms`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: Maybe): string {
  if (missing(value)) return NONE;
  let rest = value;
  let unit = 0;
  while (rest >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 || rest >= 100 ? whole.format(Math.round(rest)) : tenths.format(rest)} ${UNITS[unit]}`;
}

/** 4 s, 3 min, 2 h, 5 d. */
export function duration(seconds: Maybe): string {
  if (missing(seconds)) return NONE;
  if (seconds < 1) return `${whole.format(Math.round(seconds * 1000))} ms`;
  if (seconds < 120) return `${whole.format(Math.round(seconds))} s`;
  if (seconds < 7200) return `${whole.format(Math.round(seconds / 60))} min`;
  if (seconds < 172_800) return `${whole.format(Math.round(seconds / 3600))} h`;
  return `${whole.format(Math.round(seconds / 86_400))} d`;
}

export function moment(ms: number): string {
  return stamp.format(ms);
}

export function timeOfDay(ms: number): string {
  return clock.format(ms);
}

/** The time of day, with the date where it is not today: as a person compares it with a log. */
export function clockTime(ms: number, now = Date.now()): string {
  const isToday = new Date(ms).toDateString() === new Date(now).toDateString();
  return (isToday ? clock : dayAndClock).format(ms);
}

/** "3 minutes ago". */
export function ago(ms: number, now = Date.now()): string {
  const seconds = Math.round((ms - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 90) return relative.format(seconds, "second");
  if (size < 5400) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 129_600) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86_400), "day");
}

/** "in 34 min" until the next attempt. A time that has come waits for the target, or for its turn. */
export function dueIn(ms: number, now = Date.now()): string {
  return ms <= now ? "due now" : `in ${duration((ms - now) / 1000)}`;
}

/** "27 Nov" where it is not today, with the year where it is not this one; "" where it is today. */
export function dayOf(ms: number, now = Date.now()): string {
  const [then, today] = [new Date(ms), new Date(now)];
  if (then.toDateString() === today.toDateString()) return "";
  return (then.getFullYear() === today.getFullYear() ? day : dayAndYear).format(ms);
}

/** A sentence that begins in lower case. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** "1 event", "3 events". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Cut in the middle: the end of an identifier or an address tells it from others more often than its middle. */
export function middle(text: string, most: number): string {
  if (text.length <= most) return text;
  const tail = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(-tail)}`;
}
