#!/usr/bin/env bash
# Builds, tests and measures Xoe on a machine with a GPU, also without a network: docs/gpu.md says what, and what to expect.
#   scripts/gpu_check.sh [--parts NAME,...] [--rehearse] [RESULTS]        (default: build/gpu/results)
# The plain python3 must be the one that has PyTorch. In a bundle of scripts/gpu_bundle.sh Debian's packages are beside the sources.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=$root/build/gpu/debian/usr
if [[ -d $packages ]]; then
  # The compiler and CMake then treat them as the system's own.
  export CMAKE_PREFIX_PATH=$packages LIBRARY_PATH=$packages/lib/x86_64-linux-gnu
  # Programs find its libraries there, too; a variable would have the machine's own programs find them.
  export LDFLAGS="${LDFLAGS:-} -Wl,-rpath,$LIBRARY_PATH"
  export CPLUS_INCLUDE_PATH=$packages/include:$packages/include/x86_64-linux-gnu C_INCLUDE_PATH=$packages/include
fi
exec python3 "$root/bench/gpu/check.py" "$@"
