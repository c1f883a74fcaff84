// Requests to the admin API. Addresses are relative to the page: `../v1/…`.
import type { Json, Paths, Problem } from "./types";

export const ROOT = "..";

/** An answer that is no success, or no answer at all (`status` 0). */
export class ApiError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail || problem.title);
    this.problem = problem;
  }

  get status(): number {
    return this.problem.status;
  }

  /** The last part of the type: `missing-scope`. */
  get code(): string {
    return this.problem.type.split(":").pop() ?? "";
  }
}

/** The problem of whatever was thrown. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  const detail = error instanceof Error ? error.message : String(error);
  return { type: "about:blank", title: "The console failed", status: 0, detail, faults: [] };
}

type Method = "get" | "post" | "put" | "patch" | "delete";
type Operation<P extends keyof Paths, M extends Method> = Exclude<Paths[P][M], undefined>;
type PathsWith<M extends Method> = {
  [P in keyof Paths]: Paths[P][M] extends undefined | never ? never : P;
}[keyof Paths];

type Content<R> = R extends { content: infer C } ? (C extends Record<string, infer B> ? B : never) : undefined;
type Good<R> = R extends { 200: infer G }
  ? R extends { 202: infer L }
    ? Content<G> | Content<L>
    : Content<G>
  : R extends { 201: infer G }
    ? Content<G>
    : R extends { 202: infer G }
      ? Content<G>
      : undefined;
/** What an operation answers when it succeeds. */
export type Answer<P extends keyof Paths, M extends Method> =
  Operation<P, M> extends { responses: infer R } ? Good<R> : never;

type PathOf<O> = O extends { parameters: { path: infer V } } ? { path: V } : { path?: undefined };
type QueryOf<O> = O extends { parameters: { query?: infer V } } ? { query?: V } : { query?: undefined };
interface Rest {
  /** Sent as JSON, or as it is where it is a string or `type` is given. */
  body?: unknown;
  /** Content type of the body. */
  type?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}
export type Options<P extends keyof Paths, M extends Method> = PathOf<Operation<P, M>> &
  QueryOf<Operation<P, M>> &
  Rest;
type Arguments<P extends keyof Paths, M extends Method> =
  Operation<P, M> extends { parameters: { path: unknown } } ? [Options<P, M>] : [Options<P, M>?];

let csrf = "";
let onUnauthorised: () => void = () => undefined;

/** `lost` is called when an answer says that the session has ended. */
export function bindSession(token: string, lost: () => void): void {
  csrf = token;
  onUnauthorised = lost;
}

/** The relative address of an operation. */
export function address(path: string, options: { path?: unknown; query?: unknown } = {}): string {
  const values = (options.path ?? {}) as Record<string, string | number>;
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries((options.query ?? {}) as Record<string, unknown>))
    for (const each of Array.isArray(value) ? (value as unknown[]) : [value])
      if (each !== undefined && each !== null && each !== "") search.append(name, String(each));
  return `${ROOT}${filled}${search.size ? `?${search}` : ""}`;
}

/** Sends any request and returns the answer if it is a success. Raises ApiError. */
export async function send(method: string, url: string, options: Rest = {}): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  const init: RequestInit = { method, headers, credentials: "same-origin", signal: options.signal ?? null };
  if (options.body !== undefined) {
    headers["content-type"] = options.type ?? "application/json";
    init.body = typeof options.body === "string" ? options.body : JSON.stringify(options.body);
  }
  if (method !== "GET" && csrf) headers["x-csrf-token"] = csrf;
  const answer = await fetch(url, init).catch((error: unknown) => {
    if (options.signal?.aborted) throw error;
    throw new ApiError(unreachable());
  });
  if (answer.ok) return answer;
  if (answer.status === 401) onUnauthorised();
  throw new ApiError(await problemIn(answer));
}

function unreachable(): Problem {
  return {
    type: "urn:skybridge:problem:unreachable",
    title: "No answer",
    status: 0,
    detail: "The service does not answer. Does the process run? The console asks again by itself.",
    faults: [],
  };
}

async function problemIn(answer: Response): Promise<Problem> {
  const text = await answer.text();
  const fallback = { type: "about:blank", title: answer.statusText || "Error", status: answer.status, faults: [] };
  try {
    return { ...fallback, detail: "", ...(JSON.parse(text) as Partial<Problem>) };
  } catch {
    return { ...fallback, detail: text.slice(0, 500) };
  }
}

async function call<P extends keyof Paths, M extends Method>(
  method: M,
  path: P,
  options: Options<P, M> | undefined,
): Promise<Answer<P, M>> {
  const answer = await send(method.toUpperCase(), address(path as string, options), options);
  return (await bodyOf(answer)) as Answer<P, M>;
}

async function bodyOf(answer: Response): Promise<unknown> {
  if (answer.status === 204) return undefined;
  const type = answer.headers.get("content-type") ?? "";
  return type.includes("json") ? ((await answer.json()) as Json) : await answer.text();
}

/** `await api.get("/v1/subscriptions/{id}/status", { path: { id } })`. Raises ApiError. */
export const api = {
  get: <P extends PathsWith<"get">>(path: P, ...[options]: Arguments<P, "get">) => call("get", path, options),
  post: <P extends PathsWith<"post">>(path: P, ...[options]: Arguments<P, "post">) => call("post", path, options),
  put: <P extends PathsWith<"put">>(path: P, ...[options]: Arguments<P, "put">) => call("put", path, options),
  patch: <P extends PathsWith<"patch">>(path: P, ...[options]: Arguments<P, "patch">) =>
    call("patch", path, options),
  delete: <P extends PathsWith<"delete">>(path: P, ...[options]: Arguments<P, "delete">) =>
    call("delete", path, options),
};
