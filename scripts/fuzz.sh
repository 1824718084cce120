#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each for a while. What breaks a target is left in build/fuzz/artifacts.
#   scripts/fuzz.sh [SECONDS]
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "usage: scripts/fuzz.sh [SECONDS]"
cd "$root"
scripts/setup.sh --with lint --no-python fuzz
mapfile -t targets < <(find build/fuzz/fuzz -maxdepth 1 -type f -name '*_fuzz' -perm -u+x | sort)
((${#targets[@]} > 0)) || die "no fuzz target was built"
mkdir -p build/fuzz/artifacts
for target in "${targets[@]}"; do
  name=$(basename "$target")
  say "$name for $seconds s"
  mkdir -p "build/fuzz/corpus/$name"
  run_step "fuzz $name" "$target" -max_total_time="$seconds" -artifact_prefix="build/fuzz/artifacts/$name-" \
    "build/fuzz/corpus/$name"
done
say "${#targets[@]} targets ran $seconds s each; nothing found"
