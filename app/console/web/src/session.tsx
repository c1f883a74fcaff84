// The session of this browser: a cookie that scripts cannot read, scopes, and the token that changes must carry.
import { createContext } from "preact";
import type { ComponentChildren } from "preact";
import { useCallback, useContext, useEffect, useState } from "preact/hooks";

import { bindSession, problemOf, ROOT, send } from "./api/client";
import type { Problem, Scope, Session } from "./api/types";
import { Login } from "./login";
import { ProblemBox } from "./ui/problem";

interface Held {
  session: Session;
  /** True if the session allows what needs this scope: a button that it does not allow is not drawn. */
  may: (scope: Scope) => boolean;
  logout: () => Promise<void>;
}

const Context = createContext<Held | null>(null);

export function useSession(): Held {
  return useContext(Context)!;
}

/** Shows its children only where the session has the scope. */
export function Allowed({ scope, children }: { scope: Scope; children: ComponentChildren }) {
  return useSession().may(scope) ? <>{children}</> : null;
}

export function SessionGate({ children }: { children: ComponentChildren }) {
  const [session, set] = useState<Session>();
  const [problem, setProblem] = useState<Problem>();
  const take = useCallback((found: Session) => {
    bindSession(found.csrf, () => void ask());
    setProblem(undefined);
    set(found);
  }, []);
  const ask = useCallback(async () => {
    try {
      take((await (await send("GET", `${ROOT}/v1/session`)).json()) as Session);
    } catch (error) {
      setProblem(problemOf(error));
    }
  }, []);
  useEffect(() => void ask(), []);
  useEffect(() => {
    if (!problem) return;
    const timer = setTimeout(ask, 2000);
    return () => clearTimeout(timer);
  }, [problem]);
  if (problem && !session) return <main class="alone"><ProblemBox problem={problem} onRetry={ask} /></main>;
  if (!session) return <main class="alone" aria-busy="true" />;
  if (session.login_required && !session.authenticated) return <Login onSession={take} />;
  const logout = async () => {
    await send("DELETE", `${ROOT}/v1/session`).catch(() => undefined);
    await ask();
  };
  const may = (scope: Scope) => session.scopes.includes(scope);
  return <Context.Provider value={{ session, may, logout }}>{children}</Context.Provider>;
}
