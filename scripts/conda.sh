#!/usr/bin/env bash
# Makes conda packages of wheels, with rattler-build: one for each Python that has a wheel. They are installed and tried before the
# script ends.
#   scripts/conda.sh [--channel CHANNEL]... [WHEELS [FOLDER]]     (default: conda-forge, build/wheels and build/conda)
#   scripts/conda.sh --check [--channel CHANNEL]...               makes none, and fails where a channel does not answer
# WHEELS: the folder that scripts/wheel.sh wrote. FOLDER becomes a channel: conda install -c file://FOLDER xoe
# CHANNEL has the packages that Xoe needs: python, pip and cloudpickle.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

check=
if [[ ${1:-} == --check ]]; then
  check=yes
  shift
fi
channels=()
while [[ ${1:-} == --channel && $# -ge 2 ]]; do
  channels+=("$2")
  shift 2
done
if (($# > 2)) || [[ ${1:-} == -* ]]; then die "usage: scripts/conda.sh [--check] [--channel CHANNEL]... [WHEELS [FOLDER]]"; fi
wheels=$(realpath -m "${1:-$root/build/wheels}")
target=$(realpath -m "${2:-$root/build/conda}")
cd "$root"
((${#channels[@]} > 0)) || channels=(conda-forge)
if [[ -n $check ]]; then
  for channel in "${channels[@]}"; do
    [[ $channel == *://* ]] || channel=https://conda.anaconda.org/$channel
    python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + "/noarch/repodata.json.zst", timeout=30).close()' "$channel" 2>/dev/null ||
      die "no channel answers at $channel"
  done
  exit
fi
compgen -G "$wheels/xoe-*_x86_64.whl" >/dev/null || die "$wheels has no wheel of Xoe: scripts/wheel.sh --all makes them"

install_environment conda "what makes conda packages" requirements/conda.txt
version=$(sed -n 's/^project(xoe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
say "making conda packages of the wheels in $wheels"
XOE_VERSION=$version XOE_WHEELS=$wheels run_step "conda packages" build/peers/conda/bin/python deploy/conda/build.py "$target" "${channels[@]}"
say "made $(find "$target" -name "xoe-$version-*.conda" -printf '%f ')"
