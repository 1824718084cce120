#!/usr/bin/env bash
# Compares the C interface with that of the last release: what programs that were compiled with the old headers rely on.
#   scripts/abi.sh [check]     fails if a function, a type or a number is gone or has changed; says what is new
#   scripts/abi.sh write       for a release: describes the interface as it is, in packages/abi/libxoe.abi
# Structures that carry their size may grow at their end: such growth is shown, and has to be written down by `write`.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

action=${1:-check}
[[ $# -le 1 && ($action == check || $action == write) ]] || die "usage: scripts/abi.sh [check | write]"
if ! command -v abidiff >/dev/null; then
  say "skipped: abidiff is not installed (packages.txt: abigail-tools)"
  exit 77
fi
kept=$root/packages/abi/libxoe.abi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A library with a pointer to each function, so that its debug information has the types of all of them.
{
  printf '#include "xoe/c.h"\n#include "xoe/c_data.h"\n'
  while read -r name _; do
    [[ $name == xoe_* ]] && printf 'extern __typeof__(%s)* const of_%s; __typeof__(%s)* const of_%s = %s;\n' \
      "$name" "$name" "$name" "$name" "$name"
  done < "$root/frameworks/c/symbols.txt"
} > "$folder/interface.c"
cc -std=gnu11 -g -fPIC -shared -I "$root/frameworks/c/include" "$folder/interface.c" -o "$folder/libxoe-interface.so"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed "$folder/libxoe-interface.so" > "$folder/now.abi"
if [[ $action == write ]]; then
  cp "$folder/now.abi" "$kept"
  say "wrote $kept"
else
  abidiff "$kept" "$folder/now.abi" || die "the C interface differs from the last release. What old programs call must stay; if only \
something was added, run \`scripts/abi.sh write\` and commit packages/abi; else raise SOVERSION in frameworks/c/CMakeLists.txt"
  say "the C interface is that of the last release"
fi
