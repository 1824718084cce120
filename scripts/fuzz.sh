#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each, or those named, for a while, beginning with the seeds in
# tests/fuzz/seeds of their house. What breaks a target is left in build/fuzz/artifacts.
#   scripts/fuzz.sh [SECONDS [TARGET...]]
# XOE_FUZZ_SECONDS: how long each target runs where SECONDS is not given; 60 unless set.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=${1:-${XOE_FUZZ_SECONDS:-60}}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "usage: scripts/fuzz.sh [SECONDS [TARGET...]]"
wanted=("${@:2}")
cd "$root"
# Those named, or all that there are.
selected=("${wanted[@]}")
if ((${#selected[@]} == 0)); then
  mapfile -t selected < <(basename -s .cc -a ./*/tests/fuzz/*_fuzz.cc)
fi
scripts/setup.sh --with lint --no-python "fuzz:$(IFS=, && echo "${selected[*]}")"
mapfile -t targets < <(find build/fuzz/fuzz -maxdepth 1 -type f -name '*_fuzz' -perm -u+x | sort)
((${#targets[@]} > 0)) || die "no fuzz target was built"
mkdir -p build/fuzz/artifacts
ran=0
for target in "${targets[@]}"; do
  name=$(basename "$target")
  ((${#wanted[@]} == 0)) || [[ " ${wanted[*]} " == *" $name "* ]] || continue
  say "$name for $seconds s"
  folders=("build/fuzz/corpus/$name") # what is found goes to the first one
  mkdir -p "${folders[0]}"
  for seeds in */tests/fuzz/seeds/"$name"; do
    [[ ! -d $seeds ]] || folders+=("$seeds")
  done
  run_step "fuzz $name" "$target" -max_total_time="$seconds" -artifact_prefix="build/fuzz/artifacts/$name-" \
    "${folders[@]}"
  ran=$((ran + 1))
done
((ran > 0)) || die "no such target: ${wanted[*]}"
say "$ran targets ran $seconds s each; nothing found"
