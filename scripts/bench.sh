#!/usr/bin/env bash
# The comparison with other engines and input pipelines: installs the peers, builds, measures.
#   scripts/bench.sh [--quick]         everything
#   scripts/bench.sh OPTION...         what these options of bench/run.py choose
#   scripts/bench.sh engine OPTION...  the engine of named tensors alone, with options of bench/engine/run.py
#   scripts/bench.sh data OPTION...    the input pipeline alone, with options of bench/data/run.py
#   scripts/bench.sh python OPTION...  training with PyTorch from Python alone, with options of bench/python/run.py
#   scripts/bench.sh models OPTION...  the networks of xoe train alone, with options of bench/models/run.py
#   scripts/bench.sh emulated OPTION...  emulated accelerators on more ranks than cores alone, with options of bench/emulated/run.py
#   scripts/bench.sh prediction OPTION...  predictions of larger sizes beside measurements alone, with options of bench/emulated/prediction.py
#   scripts/bench.sh containers OPTION...  containers beside bare processes alone, with options of bench/containers/run.py; needs root
#   scripts/bench.sh kubernetes OPTION...  pods of a pretended cluster beside bare processes alone, with options of bench/kubernetes/run.py; needs root
#   scripts/bench.sh frameworks OPTION...  TensorFlow and JAX alone, with options of bench/frameworks/run.py
#   scripts/bench.sh hosts OPTION...   several hosts alone, with options of bench/hosts/run.py; needs root
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The servers that play hosts are installed where that starts nothing, as for the tests.
measure_hosts() {
  if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with net --no-python; fi
  .venv/bin/python bench/hosts/run.py "$@"
}

cd "$root"
scripts/setup.sh --with bench release
if [[ ${1:-} == engine ]]; then
  shift
  exec .venv/bin/python bench/engine/run.py "$@"
fi
if [[ ${1:-} == data ]]; then
  shift
  bench/data/install_peers.sh
  exec .venv/bin/python bench/data/run.py "$@"
fi
if [[ ${1:-} == python ]]; then
  shift
  bench/data/install_peers.sh pytorch
  exec bench/python/run.py "$@"
fi
if [[ ${1:-} == emulated ]]; then
  shift
  bench/data/install_peers.sh pytorch
  exec bench/emulated/run.py "$@"
fi
if [[ ${1:-} == prediction ]]; then
  shift
  exec bench/emulated/prediction.py "$@"
fi
if [[ ${1:-} == containers ]]; then
  shift
  if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with net --no-python; fi
  exec bench/containers/run.py "$@"
fi
if [[ ${1:-} == kubernetes ]]; then
  shift
  if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with net --no-python; fi
  tests/kubernetes/install.sh
  exec bench/kubernetes/run.py "$@"
fi
if [[ ${1:-} == models ]]; then
  shift
  bench/data/install_peers.sh pytorch
  exec bench/models/run.py "$@"
fi
if [[ ${1:-} == frameworks ]]; then
  shift
  bench/data/install_peers.sh pytorch frameworks mpi4jax
  exec bench/frameworks/run.py "$@"
fi
if [[ ${1:-} == hosts ]]; then
  shift
  measure_hosts "$@"
  exit
fi
.venv/bin/python bench/run.py "$@"
if (($# == 0)) || [[ $* == --quick ]]; then
  .venv/bin/python bench/engine/run.py "$@"
  bench/data/install_peers.sh
  .venv/bin/python bench/data/run.py "$@"
  bench/python/run.py "$@"
  bench/data/install_peers.sh frameworks mpi4jax
  bench/frameworks/run.py
  measure_hosts "$@"
fi
