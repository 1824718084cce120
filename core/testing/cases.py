"""Runs the cases of a test program one after the other, tells how each ended, and gives the program's exit code."""

import subprocess
import time
import traceback

SKIPPED = 77  # the exit code of a test that could not run, or not as a whole


class Skip(Exception):
    """Raised by a case that cannot run here; its text says why."""


def methods(tests, chosen=()):
    """The cases of an object: its methods test_*, or those that are chosen."""
    names = chosen or [name for name in dir(tests) if name.startswith("test_")]
    return [(name, getattr(tests, name)) for name in names]


def run(cases, after=lambda: None):
    """cases: names and functions. after: called behind each. 1: one has failed; SKIPPED: none has, and some could not run; else 0."""
    ended = {"ok": 0, "skipped": 0, "FAILED": 0}
    for name, case in cases:
        began = time.monotonic()
        how, why = "ok", ""
        try:
            case()
        except Skip as reason:
            how, why = "skipped", str(reason)
        except (AssertionError, RuntimeError, subprocess.SubprocessError) as error:
            how, why = "FAILED", str(error) or traceback.format_exc()
        except Exception:
            how, why = "FAILED", traceback.format_exc()
        after()
        ended[how] += 1
        print(f"{how:8}{name} ({time.monotonic() - began:.1f} s)" + (f": {why}" if why else ""), flush=True)
    print(f"{ended['ok']} passed, {ended['FAILED']} failed, {ended['skipped']} skipped", flush=True)
    return 1 if ended["FAILED"] else SKIPPED if ended["skipped"] else 0
