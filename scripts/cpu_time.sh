#!/usr/bin/env bash
# Runs a compiler or linker and appends "USER SYSTEM OUTPUT" to $XOE_CPU_TIME_FILE; scripts/build_time.sh sets it before each.
output=none
for ((i = 1; i < $#; ++i)); do
  if [[ ${!i} == -o ]]; then
    next=$((i + 1))
    output=${!next}
  fi
done
TIMEFORMAT="%3U %3S $output"
exec 3>&2
{ time "$@" 2>&3; } 2>>"${XOE_CPU_TIME_FILE:-/dev/null}"
