// Faults and warnings of a configuration, each with its line.
import type { Remark } from "../../api/types";

interface Said {
  line: number;
  setting: string;
  message: string;
  cure: string;
}

/** The text of a finding: `line 12: error routes[0].to: … Cure: …`, or without its parts. */
function saidIn(text: string): Said {
  const [, line = "0", rest = text] = /^line (\d+): (.*)$/s.exec(text) ?? [];
  const [, before = rest, cure = ""] = /^(.*?) Cure: (.*)$/s.exec(rest) ?? [];
  const [, setting = "", message = before] = /^(?:(?:error|warning) )?([\w[\].-]+): (.*)$/s.exec(before) ?? [];
  return { line: Number(line), setting, message, cure };
}

export function Lines({ texts, tone }: { texts: string[]; tone: "warn" | "bad" }) {
  return (
    <ul class="findings">
      {texts.map((text) => (
        <Finding key={text} said={saidIn(text)} tone={tone} />
      ))}
    </ul>
  );
}

/** Remarks of a check, the faults first. `onLine` goes to a line of the text beside it. */
export function Remarks({ remarks, onLine }: { remarks: Remark[]; onLine: (line: number) => void }) {
  const sorted = [...remarks].sort((one, other) => one.level.localeCompare(other.level) || one.line - other.line);
  return (
    <ul class="findings">
      {sorted.map((each) => (
        <Finding
          key={`${each.line}${each.setting}${each.message}`}
          said={each}
          tone={each.level === "error" ? "bad" : "warn"}
          onLine={onLine}
        />
      ))}
    </ul>
  );
}

interface FindingProps {
  said: Said;
  tone: "warn" | "bad";
  onLine?: (line: number) => void;
}

function Finding({ said, tone, onLine }: FindingProps) {
  const { line, setting, message, cure } = said;
  return (
    <li class={tone}>
      {line > 0 &&
        (onLine ? (
          <button type="button" class="quiet line-number" onClick={() => onLine(line)}>
            Line {line}
          </button>
        ) : (
          <span class="line-number">Line {line}</span>
        ))}
      <div>
        {setting && <code>{setting}</code>} {message}
        {cure && <p class="note">Cure: {cure}</p>}
      </div>
    </li>
  );
}
