#!/usr/bin/env bash
# Random programs on the engine, their results compared with a plain computation, and the models with all their runs.
#   scripts/soak.sh [PROGRAMS [FIRST_SEED]]     100000 of each sort unless said otherwise
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
scripts/setup.sh release:engine_tests
export XOE_SOAK=${1:-100000} XOE_SEED=${2:-1}
docs/models/check.sh
build/release/tests/engine_tests --gtest_filter='CoordinatorRandom.*'
XOE_TEST_FILES=random_test.cc exec build/release/tests/engine_tests
