// Times and sizes for people.
import type { Gpu, Lease } from "./types";

/** "2 h 05 min", "40 s" */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** "16:53", a moment of another day with its date: "Nov 26, 16:53". Everywhere on the page times are local and of 24 hours. */
export function moment(seconds: number, now: number, to: "minute" | "second" = "minute"): string {
  const at = new Date(seconds * 1000);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: to === "second" ? "2-digit" : undefined, hourCycle: "h23" });
  if (at.toDateString() === new Date(now * 1000).toDateString()) return time;
  return `${at.toLocaleDateString([], { month: "short", day: "numeric" })}, ${time}`;
}

/** A sentence of the server, which writes "2026-11-26 16:53:00 UTC", with the page's times. */
export function sentence(text: string, now: number): string {
  return text.replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (whole, day, time) => {
    const at = Date.parse(`${day}T${time}Z`) / 1000;
    return Number.isNaN(at) ? whole : moment(at, now);
  });
}

export function gibibytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(bytes < 10 * 2 ** 30 ? 1 : 0)} GiB`;
}

export function gpus(count: number): string {
  return count === 1 ? "1 GPU" : `${count} GPUs`;
}

/** When it ends at the latest; undefined: the server does not tell. */
export function ends(lease: Lease): number | undefined {
  return lease.give_way?.by ?? lease.expires;
}

/** "2.0 GiB of 15 GiB in use, 41 °C", without what is not known. */
export function figures(gpu: Gpu): string {
  const memory = gpu.memory_used === undefined ? "" : `${gibibytes(gpu.memory_used)} of ${gibibytes(gpu.memory)} in use`;
  return [memory, gpu.temperature ? `${gpu.temperature} °C` : ""].filter((text) => text).join(", ");
}

/** "GPU-00000001-…-4440" */
export function short(uuid: string): string {
  return uuid.length <= 20 ? uuid : `${uuid.slice(0, 12)}…${uuid.slice(-4)}`;
}

/** A colour of Okabe and Ito for each name, in the order in which they are first seen: colour-blind people can tell them apart. */
const kColours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7f00"];
const kMostNames = 10_000; // then the first ones are forgotten
const given = new Map<string, string>();
let next = 0;
export function colour(name: string): string {
  if (!given.has(name)) {
    if (given.size >= kMostNames) given.delete(given.keys().next().value!);
    given.set(name, kColours[next++ % kColours.length]);
  }
  return given.get(name)!;
}
