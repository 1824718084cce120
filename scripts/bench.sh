#!/usr/bin/env bash
# The comparison with other engines and input pipelines: installs the peers, builds, measures.
#   scripts/bench.sh [--quick]         everything
#   scripts/bench.sh OPTION...         what these options of measure/compare/run.py choose
#   scripts/bench.sh engine OPTION...  the engine of named tensors alone, with options of core/bench/engine/run.py
#   scripts/bench.sh data OPTION...    the input pipeline alone, with options of data/bench/run.py
#   scripts/bench.sh python OPTION...  training with PyTorch from Python alone, with options of frameworks/bench/python/run.py
#   scripts/bench.sh models OPTION...  the networks of xoe train alone, with options of train/bench/models/run.py
#   scripts/bench.sh emulated OPTION...  emulated accelerators on more ranks than cores alone, with options of train/bench/emulated/run.py
#   scripts/bench.sh elastic OPTION...   ranks and hosts of a training that are lost and that join alone, with options of train/bench/elastic/run.py
#   scripts/bench.sh prediction OPTION...  predictions of larger sizes beside measurements alone, with options of train/bench/emulated/prediction.py
#   scripts/bench.sh containers OPTION...  containers beside bare processes alone, with options of measure/containers/run.py; needs root
#   scripts/bench.sh kubernetes OPTION...  pods of a pretended cluster beside bare processes alone, with options of measure/kubernetes/run.py; needs root
#   scripts/bench.sh frameworks OPTION...  TensorFlow and JAX alone, with options of frameworks/bench/frameworks/run.py
#   scripts/bench.sh hosts OPTION...   several hosts alone, with options of core/bench/hosts/run.py; needs root
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The servers that play hosts are installed where that starts nothing, as for the tests.
measure_hosts() {
  if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with net --no-python; fi
  .venv/bin/python core/bench/hosts/run.py "$@"
}

cd "$root"
scripts/setup.sh --with bench release
if [[ ${1:-} == engine ]]; then
  shift
  exec .venv/bin/python core/bench/engine/run.py "$@"
fi
if [[ ${1:-} == data ]]; then
  shift
  data/bench/install_peers.sh
  exec .venv/bin/python data/bench/run.py "$@"
fi
if [[ ${1:-} == python ]]; then
  shift
  data/bench/install_peers.sh pytorch
  exec frameworks/bench/python/run.py "$@"
fi
if [[ ${1:-} == emulated ]]; then
  shift
  data/bench/install_peers.sh pytorch
  exec train/bench/emulated/run.py "$@"
fi
if [[ ${1:-} == elastic ]]; then
  shift
  data/bench/install_peers.sh pytorch
  exec .venv/bin/python train/bench/elastic/run.py "$@"
fi
if [[ ${1:-} == prediction ]]; then
  shift
  exec train/bench/emulated/prediction.py "$@"
fi
if [[ ${1:-} == containers ]]; then
  shift
  if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with net --no-python; fi
  exec measure/containers/run.py "$@"
fi
if [[ ${1:-} == kubernetes ]]; then
  shift
  if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with net --no-python; fi
  launch/tests/kubernetes/install.sh
  exec measure/kubernetes/run.py "$@"
fi
if [[ ${1:-} == models ]]; then
  shift
  data/bench/install_peers.sh pytorch
  exec train/bench/models/run.py "$@"
fi
if [[ ${1:-} == frameworks ]]; then
  shift
  data/bench/install_peers.sh pytorch frameworks mpi4jax
  exec frameworks/bench/frameworks/run.py "$@"
fi
if [[ ${1:-} == hosts ]]; then
  shift
  measure_hosts "$@"
  exit
fi
.venv/bin/python measure/compare/run.py "$@"
if (($# == 0)) || [[ $* == --quick ]]; then
  .venv/bin/python core/bench/engine/run.py "$@"
  data/bench/install_peers.sh
  .venv/bin/python data/bench/run.py "$@"
  frameworks/bench/python/run.py "$@"
  data/bench/install_peers.sh frameworks mpi4jax
  frameworks/bench/frameworks/run.py "$@"
  measure_hosts "$@"
fi
