#!/usr/bin/env bash
# A pool to look at: a server, the agents of two hosts with four T4s each (a mock of NVIDIA's library), and ten simulated users, for a minute.
# Prints the address of the web page and a token to log in with. Exits 1 when something that the pool does could not be seen.
#   scripts/pool_demo.sh [--stay]     --stay: until Ctrl-C
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
scripts/setup.sh release:xoe,xoe-pool,mock_nvml
exec python3 -B pool/tests/demo_test.py build/release/bin/xoe build/release/tests/libmock_nvml.so "$@"
