// A redrive from the page: in portions, and followed until its events are delivered or dead again. Closing the page
// does not stop what was ordered.
import { api } from "../../api/client";
import type { Redriven } from "../../api/types";
import type { Choice } from "./filter";

const PORTION = 1_000; // letters of one request
const LOOK_MS = 500; // between two looks

export interface Progress {
  /** Ordered so far. */
  ordered: number;
  /** Of those: still on their way. */
  left: number;
  /** New dead letters of the same subscriptions since it began. */
  deadAgain: number;
  total: number;
  /** Events a second that left since it began. */
  speed: number;
  over: boolean;
}

export function dryRun(choice: Choice): Promise<Redriven> {
  return api.post("/v1/dead-letters:redrive", { body: { ...choice, dry_run: true } });
}

/** `plan`: what the dry run found. `tell` is called after every portion and every look. */
export async function run(
  choice: Choice,
  plan: Redriven,
  rate: number,
  tell: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<void> {
  const bounded = { until: plan.at_ms, ...choice }; // what fails again meanwhile is left alone
  const followed = new Set(plan.counts.map((each) => each.subscription).filter((each) => !(each in plan.waiting)));
  const began = performance.now();
  const state = { ordered: 0, left: 0, deadAgain: 0, total: plan.left, speed: 0, over: false };
  const look = async () => {
    Object.assign(state, await standing(followed, plan.at_ms, signal));
    const seconds = (performance.now() - began) / 1000;
    state.speed = seconds > 0 ? Math.max(0, state.ordered - state.left) / seconds : 0;
    tell({ ...state });
  };
  while (state.ordered < plan.left && !signal.aborted) {
    const limit = Math.min(PORTION, plan.left - state.ordered);
    const body = { ...bounded, dry_run: false, rate, limit };
    const found = await api.post("/v1/dead-letters:redrive", { body });
    if (!found.redriven) break; // somebody else was faster
    state.ordered += found.redriven;
    await look();
  }
  await look();
  while (state.left && followed.size && !signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    await look();
  }
  if (!signal.aborted) tell({ ...state, over: true });
}

async function standing(subscriptions: Set<string>, since: number, signal: AbortSignal) {
  const [parked, dead] = await Promise.all([
    api.get("/v1/parked/count", { signal }),
    api.get("/v1/dead-letters/count", { query: { since }, signal }),
  ]);
  const mine = <T extends { subscription: string }>(found: T[], value: (each: T) => number) =>
    found.filter((each) => subscriptions.has(each.subscription)).reduce((sum, each) => sum + value(each), 0);
  return { left: mine(parked.counts, (each) => each.redriven), deadAgain: mine(dead.counts, (each) => each.count) };
}
