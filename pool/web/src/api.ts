// Asks the server that this page came from. The token goes into a header, never into an address.

const kPause = 2; // seconds
const kLongestPause = 300;

/** The server said no, and why. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** Seconds before it may be asked again. */
    readonly wait = 0,
  ) {
    super(message);
  }
}

async function answer(response: Response): Promise<any> {
  const body = await response.json().catch(() => null);
  if (!response.ok) {
    const wait = Math.min(Number(response.headers.get("Retry-After")) || kPause, kLongestPause);
    throw new Refused(response.status, body?.error?.message ?? `the server answered ${response.status}`, wait);
  }
  return body;
}

export function tooMany(error: unknown): error is Refused {
  return error instanceof Refused && error.status === 429;
}

export function sleep(seconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, seconds * 1000));
}

function headers(token: string): Record<string, string> {
  return { Authorization: `Bearer ${token}` };
}

export async function get(token: string, path: string): Promise<any> {
  return answer(await fetch(path, { headers: headers(token) }));
}

/** Every request may be sent twice: once more when the connection was lost. */
export async function post(token: string, path: string, body: object): Promise<any> {
  const send = () => fetch(path, { method: "POST", headers: headers(token), body: JSON.stringify(body) });
  return answer(await send().catch(send));
}

/** A token of a new lease, which makes asking twice the same as asking once. */
export function leaseToken(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export interface Watcher {
  status(fields: object): void;
  audit(line: any): void;
  live(is: boolean): void;
  /** There were too many requests; the next one comes after `seconds`. 0: there were not. */
  waits(seconds: number): void;
  refused(error: Refused): void;
}

/** Reads the server's events until `signal` ends it; connects again after a loss. EventSource cannot send a token. */
export async function watch(token: string, watcher: Watcher, signal: AbortSignal): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    let pause = kPause;
    try {
      const more: Record<string, string> = last ? { "Last-Event-ID": last } : {};
      const response = await fetch("/v1/events/stream", { headers: { ...headers(token), ...more }, signal });
      if (!response.ok) await answer(response);
      watcher.live(true);
      for await (const event of events(response.body!)) {
        if (event.id) last = event.id;
        if (event.name === "status") watcher.status(JSON.parse(event.data));
        if (event.name === "audit") watcher.audit(JSON.parse(event.data));
      }
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        watcher.refused(error);
        return;
      }
      if (tooMany(error)) pause = error.wait;
      watcher.waits(tooMany(error) ? pause : 0);
    }
    watcher.live(false);
    if (!signal.aborted) await sleep(pause);
  }
}

async function* events(body: ReadableStream<Uint8Array>) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = { name: "", data: "", id: "" };
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("event: ")) event.name = line.slice(7);
        if (line.startsWith("data: ")) event.data += line.slice(6);
        if (line.startsWith("id: ")) event.id = line.slice(4);
      }
      text = text.slice(end + 2);
      if (event.name) yield event;
    }
  }
}
