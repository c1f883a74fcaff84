// The last hour of the process: points of ten seconds, and one a second since the page is open.
import { useEffect, useState } from "preact/hooks";

import { follow } from "./api/stream";
import { problemOf, ROOT, send } from "./api/client";
import type { History, Point, Problem } from "./api/types";

const HOUR = 3600;
const DENSE = 120; // seconds in which every point of the stream stays; before, one in ten

interface Recorded {
  history: History | undefined;
  problem: Problem | undefined;
}

export function useHistory(): Recorded {
  const [recorded, set] = useState<Recorded>({ history: undefined, problem: undefined });
  useEffect(() => {
    let gone = false;
    const load = async () => {
      try {
        const history = (await (await send("GET", `${ROOT}/v1/history`)).json()) as History;
        if (!gone) set({ history, problem: undefined });
      } catch (error) {
        if (!gone) set((old) => ({ ...old, problem: problemOf(error) }));
      }
    };
    const end = follow(`${ROOT}/v1/history/live`, {
      open: () => void load(), // after a restart the points are another process's
      event: ({ data }) => set((old) => added(old, JSON.parse(data) as Point)),
      problem: (problem) => set((old) => ({ ...old, problem })),
    });
    return () => {
      gone = true;
      end();
    };
  }, []);
  return recorded;
}

function added({ history }: Recorded, point: Point): Recorded {
  if (!history) return { history, problem: undefined };
  const points = [...history.points.filter((each) => each.at > point.at - HOUR), point];
  return { history: { ...history, points: thinned(points, history.every) }, problem: undefined };
}

function thinned(points: Point[], every: number): Point[] {
  const dense = points.at(-1)!.at - DENSE;
  let kept = -Infinity;
  return points.filter((each) => {
    if (each.at < dense && each.at - kept < every * 0.9) return false;
    kept = each.at;
    return true;
  });
}
