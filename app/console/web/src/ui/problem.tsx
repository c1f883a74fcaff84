import type { Problem } from "../api/types";
import { capital } from "../format";
import { Icon } from "./icons";

const GONE = 404; // asked again, it is not there either

/** The problem details of a refusal (RFC 9457): the sentence, every fault, and what the token lacks. */
export function ProblemBox({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  const faults = problem.faults ?? [];
  const repeated = faults.some((each) => problem.detail?.includes(each.detail)); // the sentence is the list again
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{problem.status ? `${problem.title} (${problem.status})` : problem.title}</strong>
        {problem.detail && !repeated && <p>{capital(problem.detail)}</p>}
        {faults.length > 0 && (
          <ul>
            {faults.map((fault) => (
              <li key={`${fault.at}${fault.detail}`}>
                {fault.at && <code>{fault.at}</code>} {fault.detail}
                {fault.rule && <small> ({fault.rule})</small>}
              </li>
            ))}
          </ul>
        )}
        {problem.scope && <p>The session lacks the scope <code>{problem.scope}</code>.</p>}
      </div>
      {onRetry && problem.status !== GONE && <button onClick={onRetry}>Try again</button>}
    </div>
  );
}
