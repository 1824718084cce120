#!/usr/bin/env bash
# Builds and runs the tests of each preset named, and ends with one line: N passed, N failed[, N skipped].
#   scripts/test.sh PRESET...
# Under the sanitizers the tests labelled unit and multiproc run; in the other presets all of them.
# As root in a container the servers for the tests of several hosts are installed; elsewhere `scripts/setup.sh --with net`
# does, or those tests are skipped.
# TensorFlow and PyTorch are installed below build/peers for the tests that compare with them, and NVIDIA's headers and
# libraries to compare Xoe's declarations with.
# XOE_TEST_JOBS: how many tests run at once; 2 unless set. Those that lay out networks of their own run alone all the same.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($# > 0)) || die "usage: scripts/test.sh PRESET..."
cd "$root"

# The build compares with NVIDIA's headers; where they cannot be installed, it goes without them.
scripts/setup.sh
scripts/install_nccl.sh

# Packages, Python and the first preset must stand; a later one that does not build counts as a failed test.
with=()
# Not where a service manager would start the servers that come with them.
if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then with=(--with net); fi
scripts/setup.sh "${with[@]}" "$1"

# Record files are exchanged with TensorFlow, images compared with torchvision's, ranks started by torchrun; where one of them
# cannot be installed, its tests are skipped.
bench/data/install_peers.sh tfdata pytorch

results=()
for preset in "$@"; do
  result=$root/build/$preset/test-results.xml
  results+=("$preset=$result")
  mkdir -p "$root/build/$preset"
  rm -f "$result"
  if [[ $preset != "$1" ]] && ! scripts/setup.sh "$preset"; then
    continue
  fi
  labels=()
  if [[ $preset == asan || $preset == tsan ]]; then
    labels=(-L '^(unit|multiproc)$')
  fi
  say "running the tests of build/$preset"
  ctest --preset "$preset" -j "${XOE_TEST_JOBS:-2}" "${labels[@]}" --output-junit "$result" || true
done
scripts/tally.py "${results[@]}"
