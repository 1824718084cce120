// What the page knows, kept up to date by the server's events.
import { get, post, Refused, sleep, tooMany, watch } from "./api";
import type { AuditLine, Lease, Me, Status } from "./types";

const kKey = "xoe-pool-token";
const kMostLines = 500;
const kHistory = 600; // seconds of utilisation

export const pool = $state({
  token: sessionStorage.getItem(kKey) ?? "",
  me: null as Me | null,
  status: null as Status | null,
  audit: [] as AuditLine[],
  live: false,
  again: 0, // when the next request goes, after too many; 0: there were not
  now: Date.now() / 1000, // of the server
  message: "",
  /** Mean utilisation by host, a sample for each message. */
  history: { times: [] as number[], hosts: {} as Record<string, (number | null)[]> },
});

let stop = new AbortController();
let ahead = 0; // of the server's clock

setInterval(() => (pool.now = Date.now() / 1000 + ahead), 1000);
// Who waits leaves the queue when its client is silent, and loses what it got from there.
setInterval(() => {
  const unclaimed = myLeases(pool.status?.leases).filter((lease) => lease.unclaimed);
  for (const lease of [...myLeases(pool.status?.queue), ...unclaimed]) get(pool.token, `/v1/leases/${lease.id}`).catch(() => {});
}, 30_000);

export function myLeases(leases: Lease[] | undefined): Lease[] {
  return (leases ?? []).filter((lease) => lease.user === pool.me?.name);
}

/** Why the page waits; empty: it does not. */
export function waiting(): string {
  return pool.again ? `too many requests; trying again in ${Math.max(0, Math.ceil(pool.again - pool.now))} s` : "";
}

function waits(seconds: number): void {
  pool.again = seconds ? Date.now() / 1000 + ahead + seconds : 0;
}

/** Asks again for as long as there are too many requests. */
async function patiently(token: string, path: string): Promise<any> {
  for (;;) {
    try {
      const found = await get(token, path);
      waits(0);
      return found;
    } catch (error) {
      if (!tooMany(error)) throw error;
      waits(error.wait);
      await sleep(error.wait);
    }
  }
}

export function isLead(): boolean {
  return pool.me?.role === "lead" || pool.me?.role === "admin";
}

/** Whether this user may end the lease of another. */
export function governs(lease: Lease): boolean {
  return pool.me?.role === "admin" || (pool.me?.role === "lead" && pool.me.team === lease.team);
}

export async function logIn(token: string): Promise<void> {
  pool.me = await patiently(token, "/v1/me");
  pool.token = token;
  sessionStorage.setItem(kKey, token);
  if (isLead()) pool.audit = (await patiently(token, "/v1/events?last=200")).events.reverse();
  stop = new AbortController();
  void watch(
    token,
    {
      status: takeStatus,
      audit: (line) => {
        if (!pool.audit.some((known) => known.number === line.number)) pool.audit.unshift(line);
        pool.audit.length = Math.min(pool.audit.length, kMostLines);
      },
      live: (is) => {
        pool.live = is;
        if (is) waits(0);
      },
      waits,
      refused: (error) => logOut(error.message),
    },
    stop.signal,
  );
}

export function logOut(message = ""): void {
  stop.abort();
  sessionStorage.removeItem(kKey);
  Object.assign(pool, { token: "", me: null, status: null, audit: [], live: false, again: 0, message });
  pool.history = { times: [], hosts: {} };
}

function takeStatus(fields: Partial<Status>): void {
  pool.status = { ...pool.status, ...fields } as Status;
  if (fields.now) ahead = fields.now - Date.now() / 1000;
  pool.now = Date.now() / 1000 + ahead;
  if (fields.gpus) remember(pool.status);
}

function remember(status: Status): void {
  const { times, hosts } = pool.history;
  times.push(status.now);
  for (const name of Object.keys(hosts)) if (!status.hosts.some((host) => host.name === name)) delete hosts[name];
  for (const host of status.hosts) {
    const uses = status.gpus.filter((gpu) => gpu.host === host.name && gpu.utilisation !== undefined);
    const all = (hosts[host.name] ??= Array(times.length - 1).fill(null));
    all.push(uses.length ? uses.reduce((sum, gpu) => sum + gpu.utilisation!, 0) / uses.length : null);
  }
  while (times.length > 2 && times[0] < status.now - kHistory) {
    times.shift();
    for (const values of Object.values(hosts)) values.shift();
  }
}

/** Sends a change; its refusal becomes the page's message. True: it was done. */
export async function change(path: string, body: object): Promise<any> {
  pool.message = "";
  try {
    return await post(pool.token, path, body);
  } catch (error) {
    pool.message = error instanceof Refused ? error.message : "the server does not answer";
    return null;
  }
}
