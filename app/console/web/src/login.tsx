import { useRef } from "preact/hooks";

import { ROOT, send } from "./api/client";
import type { Problem, Session } from "./api/types";
import { useAction } from "./api/use";
import { Mark } from "./ui/icons";
import { ProblemBox } from "./ui/problem";

/** For a person: what the API says of a wrong token is meant for scripts. */
function inWords(problem: Problem): Problem {
  if (problem.status !== 401) return problem;
  return { ...problem, title: "The service does not know this token", detail: "Check it for missing characters and spaces." };
}

/** Exchanges an admin token for a session. The token is kept nowhere. */
export function Login({ onSession }: { onSession: (session: Session) => void }) {
  const field = useRef<HTMLInputElement>(null);
  const login = useAction(async (token: string) => {
    const answer = await send("POST", `${ROOT}/v1/session`, { body: { token } });
    onSession((await answer.json()) as Session);
  });
  const submit = async (event: Event) => {
    event.preventDefault();
    const input = field.current!;
    if (!(await login.run(input.value))) input.select();
    else input.value = "";
  };
  return (
    <main class="alone">
      <form class="login card" onSubmit={submit}>
        <h1 class="brand">
          <Mark /> Skybridge
        </h1>
        <label class="field">
          <span>Admin token</span>
          <input ref={field} type="password" name="token" autocomplete="current-password" required autofocus />
          <small>
            One of <code>server.admin.tokens</code>. It is exchanged for a session and not kept in this browser.
          </small>
        </label>
        {login.problem && <ProblemBox problem={inWords(login.problem)} />}
        <button class="primary" type="submit" disabled={login.busy}>
          Sign in
        </button>
      </form>
    </main>
  );
}
