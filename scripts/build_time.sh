#!/usr/bin/env bash
# Where the time of a build goes: seconds per folder, and the 20 dearest files.
#   scripts/build_time.sh [PRESET]                          of the last builds of build/PRESET (release), from its .ninja_log
#   scripts/build_time.sh --measure PRESET[:TARGET,...]     builds build/timed-PRESET from nothing, without ccache
# .ninja_log has wall time, which is longer the more runs beside it. --measure takes the CPU-seconds (user and system) of each
# compiler and linker. Files that were compiled together (XOE_UNITY) count as one.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
if [[ ${1:-} == --measure ]]; then
  [[ $# == 2 && $2 != -* ]] || die "usage: scripts/build_time.sh [PRESET] | --measure PRESET[:TARGET,...]"
  preset=${2%%:*}
  folder=build/timed-$preset
  targets=()
  if [[ $2 == *:* ]]; then IFS=, read -ra targets <<<"${2#*:}"; fi
  scripts/setup.sh
  rm -rf "$folder"
  run_step "configure timed $preset" cmake --preset "$preset" -B "$folder" -DXOE_UNITY="${XOE_UNITY:-ON}" -DXOE_CPU_TIME=ON
  export XOE_CPU_TIME_FILE=$root/$folder/cpu-time.txt
  run_step "build timed $preset" cmake --build "$folder" ${targets[@]+--target "${targets[@]}"}
else
  folder=build/${1:-release}
fi
[[ -f $folder/.ninja_log ]] || die "there is no $folder/.ninja_log: build it first"

# "SECONDS OUTPUT", of both files; the last line of an output counts.
seconds_of() {
  if [[ -f $folder/cpu-time.txt ]]; then
    awk '{ seconds[$3] = $1 + $2 } END { for (name in seconds) print seconds[name], name }' "$folder/cpu-time.txt"
  else
    awk -F'\t' 'NR > 1 { seconds[$4] = ($2 - $1) / 1000 } END { for (name in seconds) print seconds[name], name }' "$folder/.ninja_log" |
      grep -E '\.(o|a|so[.0-9]*)$|/(bin|tests)/[^/.]+$|^(bin|tests)/[^/.]+$' || true
  fi
}

kind="wall"
[[ ! -f $folder/cpu-time.txt ]] || kind="CPU"
seconds_of | awk -v kind="$kind" -v folder="$folder" '
  { all += $1; ++count
    name = $2; sub(/CMakeFiles\/[^\/]*\.dir\/(Unity\/)?/, "", name)
    place = name; if (!sub(/\/[^\/]*$/, "", place)) place = "."
    if ($2 !~ /\.o$/) place = "(links)"
    seconds[place] += $1; files[place] += 1 }
  END {
    printf "%s: %d steps, %.0f %s-seconds\n\n%8s %6s  folder\n", folder, count, all, kind, "seconds", "steps"
    for (place in seconds) printf "%8.1f %6d  %s\n", seconds[place], files[place], place | "sort -rn"
  }'
echo
printf '%8s  the 20 dearest files\n' seconds
seconds_of | sort -rn | awk 'NR <= 20 { sub(/CMakeFiles\//, "", $2); printf "%8.1f  %s\n", $1, $2 }'
