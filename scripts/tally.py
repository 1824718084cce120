#!/usr/bin/env python3
"""Sums what ctest wrote with --output-junit and prints `N passed, N failed[, N skipped]` as the last line.

  scripts/tally.py NAME=RESULTS.xml...

A file that is missing or broken (the build failed, ctest died) counts as one failure. Exits 1 when anything failed or
nothing ran.
"""

import sys
import xml.etree.ElementTree as ElementTree


def tally(path):
    """(passed, failed, skipped, names of the failed) of one ctest run."""
    passed, failed, skipped = 0, [], 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status == "run":
            passed += 1
        elif status in ("notrun", "disabled") and (status == "disabled" or was_skipped(case)):
            skipped += 1
        else:
            failed.append(case.get("name"))
    return passed, failed, skipped


def was_skipped(case):
    """True for a test that asked to be skipped; one whose program is missing is also `notrun`, and is a failure."""
    note = case.find("skipped")
    return note is not None and (note.get("message") or "").upper().startswith("SKIP")


def main():
    total_passed, all_failed, total_skipped = 0, [], 0
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        try:
            passed, failed, skipped = tally(path)
        except (OSError, ElementTree.ParseError):
            passed, failed, skipped = 0, ["the build or ctest itself"], 0
        total_passed += passed
        total_skipped += skipped
        all_failed += [f"{name}: {test}" for test in failed]
    for test in all_failed:
        print(f"failed: {test}")
    line = f"{total_passed} passed, {len(all_failed)} failed"
    print(line + (f", {total_skipped} skipped" if total_skipped else ""))
    return 1 if all_failed or total_passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
