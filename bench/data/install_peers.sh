#!/usr/bin/env bash
# Input pipelines from PyPI to compare with, each in a Python environment of its own below build/peers, at the versions of
# requirements/data-peers.txt; bench/data/run.py measures those that are installed.
#   bench/data/install_peers.sh [tfdata|dali|pytorch|mlx|frameworks|mxnet|sklearn]...     (default: the first four)
# frameworks: TensorFlow, Keras, JAX and optax in one environment, for the tests of their bindings; PyTorch comes from the environment pytorch.
# sklearn: scikit-learn, for the test of AUROC.
# Where a peer cannot be installed, a file says why, and bench/data/run.py prints it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
cd "$root"
mkdir -p build/peers

declare -A packages=(
  [tfdata]="tensorflow-cpu tensorboard"
  [dali]="nvidia-dali-cuda120 numpy"
  [pytorch]="torch torchvision pillow numpy cloudpickle lightning accelerate expecttest"
  [mlx]="mlx-data numpy"
  [sklearn]="scikit-learn numpy"
  [mxnet]=""  # requirements/mxnet.txt
  [frameworks]="tensorflow-cpu keras tf_keras jax optax numpy cloudpickle pytest parameterized"
)

# "NAME" -> "NAME==VERSION"
pins_of() {
  local name
  for name in "$@"; do
    grep -E "^$name==" requirements/data-peers.txt || { echo "error: $name is not in requirements/data-peers.txt" >&2 && return 1; }
  done
}

for peer in "${@:-tfdata dali pytorch mlx}"; do
  for name in $peer; do
    if [[ -z ${packages[$name]+known} ]]; then
      echo "error: no such peer: $name (tfdata, dali, pytorch, mlx, frameworks, mxnet, sklearn)" >&2
      exit 1
    fi
    folder=build/peers/data-$name
    # Word splitting is wanted: several packages.
    # shellcheck disable=SC2086
    pins=$(pins_of ${packages[$name]})
    if [[ $name == mxnet ]]; then pins=$(grep -v '^#' requirements/mxnet.txt); fi
    if [[ -x $folder/bin/python && -f $folder/installed && $(<"$folder/installed") == "$pins" ]]; then
      continue
    fi
    say "installing $name into $folder"
    # shellcheck disable=SC2086
    if why=$(make_environment "$folder" $pins 2>&1); then
      if [[ $name == frameworks ]]; then
        # PyTorch and its libraries are three gigabytes: once is enough.
        (cd build/peers/data-pytorch/lib/python3*/site-packages && pwd -P) >"$(echo "$folder"/lib/python3*/site-packages)/pytorch.pth"
      fi
      echo "$pins" >"$folder/installed"
      rm -f "$folder.why"
    else
      echo "warning: $name could not be installed; the others can still be measured" >&2
      rm -rf "$folder"
      echo "${why:-no message}" >"$folder.why"
    fi
  done
done
