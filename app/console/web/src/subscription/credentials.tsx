// How a webhook knows Skybridge: credentials and a signature.
import { Icon } from "../ui/icons";
import type { Draft, Member } from "./draft";

const KINDS = { bearer: "Bearer token", basic: "User name and password", api_key: "Key in a header", oauth2: "OAuth 2.0" };
type Kind = keyof typeof KINDS;

/** Members of each kind that must be given: name, title, placeholder. */
const MEMBERS: Record<Kind, [string, string, string][]> = {
  bearer: [["token", "Token", ""]],
  basic: [
    ["username", "User name", "skybridge"],
    ["password", "Password", ""],
  ],
  api_key: [
    ["header", "Header", "x-api-key"],
    ["secret", "Key", ""],
  ],
  oauth2: [
    ["token_endpoint", "Token endpoint", "https://login.example/token"],
    ["client_id", "Client id", "skybridge"],
    ["client_secret", "Client secret", ""],
  ],
};

interface Props {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

export function Credentials({ draft, change }: Props) {
  const { auth } = draft;
  const kind = (auth?.kind ?? "") as Kind | "";
  return (
    <div class="fields">
      <label class="field">
        <span>Credentials</span>
        <select
          value={kind}
          onChange={({ currentTarget: { value } }) => change({ auth: value ? { kind: value } : null })}
        >
          <option value="">none</option>
          {Object.entries(KINDS).map(([each, words]) => (
            <option key={each} value={each}>
              {words}
            </option>
          ))}
        </select>
        <small>
          Secrets are stored encrypted, with <code>store.encryption.key</code>. They are not shown again.
        </small>
      </label>
      {kind &&
        MEMBERS[kind].map(([name, title, hint]) => (
          <Text key={name} title={title} hint={hint} value={auth![name]} onInput={(text) => change({ auth: { ...auth, [name]: text } })} />
        ))}
    </div>
  );
}

export function Signing({ draft, change }: Props) {
  const { signing } = draft;
  const set = (part: Member) => change({ signing: { ...signing, ...part } });
  return (
    <div class="stack tight">
      <label class="check">
        <input
          type="checkbox"
          checked={signing !== null}
          onChange={(event) => change({ signing: event.currentTarget.checked ? { secret: "" } : null })}
        />
        Sign requests (Standard Webhooks)
      </label>
      {signing && (
        <div class="fields">
          <Text title="Signing secret" hint="whsec_…" value={signing.secret} onInput={(secret) => set({ secret })} />
          <div class="field">
            <span>No secret yet?</span>
            <button type="button" onClick={() => set({ secret: newSecret() })}>
              <Icon name="plus" /> Make a secret
            </button>
            <small>Give it to the receiver too: afterwards it is not shown again.</small>
          </div>
        </div>
      )}
    </div>
  );
}

const SECRET = 32; // bytes

/** As `skybridge secret` makes it. */
function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

function Text(props: { title: string; hint: string; value: unknown; onInput: (text: string) => void }) {
  return (
    <label class="field">
      <span>{props.title}</span>
      <input
        value={String(props.value ?? "")}
        placeholder={props.hint}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </label>
  );
}
