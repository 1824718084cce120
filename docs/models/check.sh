#!/usr/bin/env bash
# Explores every state of the models with Spin: no assertion fails, and no process waits for ever. Then plants one bug after
# the other in them, and Spin must find each.
#   docs/models/check.sh [--quick]      --quick: without the two largest runs
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
  echo "check.sh: $*" >&2
  exit 1
}

command -v spin >/dev/null || die "spin is not installed (packages.txt names it)"
cc=${CC:-cc}

# explore MODEL DEFINITION...: leaves the output of pan in $work/out
explore() {
  local model=$1
  shift
  (cd "$work" && rm -f pan* ./*.trail && spin -a "$@" "$here/$model" >out 2>&1) || die "$model: $(cat "$work/out")"
  # Memory in MiB; -w of the run is the size of the hash table.
  (cd "$work" && "$cc" -w -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=4096 -o pan pan.c && ./pan -m200000 -w24 >out 2>&1) || true
}

verify() {
  explore "$@"
  grep -q "errors: 0" "$work/out" || die "$* failed: $(cat "$work/out")"
  ! grep -Eq "Search not completed|max search depth too small|out of memory" "$work/out" ||
    die "$* was not explored as a whole: $(cat "$work/out")"
  printf '%-14s %-45s %10s states, nothing wrong\n' "$1" "${*:2}" "$(awk '/states, stored/ {print $1}' "$work/out")"
}

refute() {
  explore "$@"
  grep -q "^pan:1:" "$work/out" || die "$*: the bug was not found"
  printf '%-14s %-45s found: %s\n' "$1" "${*:2}" "$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' "$work/out")"
}

verify agreement.pml -DRANKS=3 -DTENSORS=3 -DSTEPS=1
verify agreement.pml -DRANKS=3 -DTENSORS=2 -DSTEPS=2
verify agreement.pml -DRANKS=2 -DTENSORS=3 -DSTEPS=2
verify agreement.pml -DRANKS=2 -DTENSORS=2 -DSTEPS=2 -DGROWTHS=1
verify agreement.pml -DRANKS=3 -DTENSORS=2 -DSTEPS=1 -DGROWTHS=1
verify coordinator.pml -DTENSORS=3 -DSTEPS=1
verify coordinator.pml -DTENSORS=2 -DSTEPS=2 -DEVICTIONS=2
if [[ ${1:-} != --quick ]]; then
  verify agreement.pml -DRANKS=3 -DTENSORS=3 -DSTEPS=2 -DDEATHS=0
  verify coordinator.pml -DTENSORS=3 -DSTEPS=2
fi
refute agreement.pml -DTENSORS=2 -DBUG_SEAL_UNFILLED
refute agreement.pml -DTENSORS=2 -DBUG_SEAL_TWICE
refute agreement.pml -DTENSORS=2 -DBUG_NO_WATCH
refute agreement.pml -DRANKS=2 -DTENSORS=2 -DSTEPS=1 -DGROWTHS=1 -DBUG_ARC_STALE
refute agreement.pml -DRANKS=2 -DTENSORS=2 -DSTEPS=1 -DGROWTHS=1 -DBUG_ARC_UNPUBLISHED
refute coordinator.pml -DTENSORS=2 -DBUG_EARLY
refute coordinator.pml -DTENSORS=2 -DBUG_EPOCH
refute coordinator.pml -DTENSORS=2 -DBUG_SILENT
