#!/usr/bin/env bash
# Tests and measures Xoe on a machine with a GPU, even without a network, within a budget of seconds: docs/gpu.md says what, and in which
# order.
#   scripts/gpu_check.sh [--budget S] [--parts NAME,...] [--rehearse] [RESULTS]        (default: 480, all, build/gpu/results)
#   scripts/gpu_check.sh --into docs/gpu RESULTS...      only puts earlier results into docs/gpu.md and README.md
# The plain python3 must be the one that has PyTorch.
set -euo pipefail
exec python3 "$(dirname "${BASH_SOURCE[0]}")/../measure/gpu/check.py" "$@"
