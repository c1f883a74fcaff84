// One poll of /status for the whole console: pages, the navigation and the foot of the page share its answer.
import { createContext } from "preact";
import type { ComponentChildren } from "preact";
import { useContext, useEffect, useRef } from "preact/hooks";

import { api } from "./api/client";
import type { Status } from "./api/types";
import { useLoad, type Loaded } from "./api/use";
import { sampleOf, withSample, type Sample } from "./samples";

/** Milliseconds. A broker that goes away is seen within two of them. */
const STATUS_EVERY = 1250;
const KEPT = 480; // samples, ten minutes
const VALUES = 100_000; // of subscriptions in all samples

interface Polled extends Loaded<Status> {
  /** Counters of the former answers, the newest last: rates are differences of them. */
  samples: Sample[];
}

const Context = createContext<Polled | null>(null);

export function StatusPoll({ children }: { children: ComponentChildren }) {
  const samples = useRef<Sample[]>([]);
  const status = useLoad(
    async (signal) => {
      const found = await api.get("/status", { signal });
      const most = Math.max(10, Math.min(KEPT, Math.floor(VALUES / (found.subscriptions.length + 1))));
      samples.current = withSample(samples.current, sampleOf(found)).slice(-most);
      return found;
    },
    [],
    STATUS_EVERY,
  );
  useEffect(() => {
    addEventListener("changed", status.reload);
    return () => removeEventListener("changed", status.reload);
  }, []);
  return <Context.Provider value={{ ...status, samples: samples.current }}>{children}</Context.Provider>;
}

export function useStatus(): Polled {
  return useContext(Context)!;
}

/** To be called after a change: what is shown is asked again at once. */
export function changed(): void {
  dispatchEvent(new Event("changed"));
}
