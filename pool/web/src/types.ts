// The server's values, from its description (/v1/openapi.json), which `npm run check` turns into schema.ts.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Lease = Schemas["Lease"];
export type LeaseRequest = Schemas["LeaseRequest"];
export type Gpu = Schemas["Gpu"];
export type Status = Schemas["Status"];
export type Me = Schemas["Me"];
export type AuditLine = Schemas["Event"];
export type UsageRow = Schemas["UsageRow"];
