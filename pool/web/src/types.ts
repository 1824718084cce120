// The server's values; /v1/openapi.json describes them. Times are seconds since 1970.
export interface Lease {
  id: number;
  user: string;
  team: string;
  state: "waiting" | "open" | "ended";
  asked: number;
  count: number;
  priority: number;
  seconds: number;
  purpose: string;
  borrowed: boolean;
  yields: boolean;
  enforced: "environment" | "cgroup";
  why?: string;
  position?: number;
  starts?: number | null;
  planned_gpus?: string[];
  at?: number;
  gpus?: string[];
  hosts?: string[];
  begins?: number;
  expires?: number;
  ended?: number;
  expiry_warned?: boolean;
  idle?: "busy" | "warned" | "signalled";
  unclaimed?: boolean;
  guarded?: boolean;
  give_way?: { by: number | null; for: number };
}

export interface Gpu {
  uuid: string;
  host: string;
  name: string;
  memory: number;
  present: boolean;
  lease?: number;
  utilisation?: number;
  temperature?: number;
  memory_used?: number;
  processes?: { pid: number; user: string }[];
}

export interface Status {
  now: number;
  hosts: { name: string; online: boolean; heard: number; without: string; problem: string }[];
  gpus: Gpu[];
  leases: Lease[];
  queue: Lease[];
  drift: { gpu: string; host: string; lease: number; what: string }[];
  teams: { name: string; quota: number; may_borrow: boolean; held: number }[];
}

export interface Me {
  name: string;
  team: string;
  role: "user" | "lead" | "admin";
  max_gpus: number;
  max_priority: number;
  max_seconds: number;
}

export interface AuditLine {
  number: number;
  at: number;
  actor: string;
  kind: string;
  lease?: number;
  subject: string;
  why: string;
}

export interface UsageRow {
  hour: number;
  team: string;
  user: string;
  held: number;
  busy: number;
  idle: number;
}
