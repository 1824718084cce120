#!/usr/bin/env bash
# Random programs on the engine, their results compared with a plain computation, the models with all their runs, ranks that end in
# ten ways, simulated jobs and labs whose hosts fail, and what accumulates: names, process sets, messages, leases (docs/limits.md).
#   scripts/soak.sh [PROGRAMS [FIRST_SEED]]     100000 of each sort unless said otherwise
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
scripts/setup.sh release:engine_tests,accumulation_test,launch_sim,pool_sim,pool_test,xoe,xoe_python
export XOE_SOAK=${1:-100000} XOE_SEED=${2:-1}
docs/models/check.sh
python3 frameworks/tests/python/kill_rounds_test.py 300
XOE_SOAK=$((10 * XOE_SOAK)) build/release/tests/accumulation_test --gtest_filter='*OfNames*'
build/release/tests/accumulation_test --gtest_filter='-*OfNames*'
build/release/tests/pool_test --gtest_filter='World.LeasesThatHaveEndedLeaveNothingInMemory'
build/release/tests/launch_sim --seeds "$XOE_SEED:$((XOE_SEED + XOE_SOAK - 1))"
build/release/tests/pool_sim --seeds "$XOE_SEED:$((XOE_SEED + XOE_SOAK - 1))"
build/release/tests/pool_sim --year --no-shrink --seeds "$XOE_SEED:$((XOE_SEED + XOE_SOAK / 10000))"
build/release/tests/engine_tests --gtest_filter='CoordinatorRandom.*'
XOE_TEST_FILES=random_test.cc exec build/release/tests/engine_tests
