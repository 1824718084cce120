#!/usr/bin/env bash
# Input pipelines from PyPI to compare with, each in a Python environment of its own below build/peers, at the versions of
# requirements/data-peers.txt; data/bench/run.py measures those that are installed.
#   data/bench/install_peers.sh [tfdata|dali|pytorch|mlx|frameworks|mxnet|mpi4jax|sklearn|pool|xprof|trackers|ray|spark|adopted]...     (default: the first four)
# frameworks: TensorFlow, Keras, JAX and optax in one environment, for the tests of their bindings; PyTorch comes from the environment pytorch.
# mpi4jax is compiled for the Open MPI of build/peers/openmpi, which `measure/compare/install_peers.sh openmpi` installs.
# sklearn: scikit-learn, for the test of AUROC.
# pool: Schemathesis, the client of Prometheus, and Playwright, for the tests of the pool's interfaces and page; the browser is Debian's.
# xprof: the reader of TensorBoard's profile plug-in, for the test of the profiles that `xoe timeline view --xprof` writes.
# trackers: MLflow, Weights & Biases and Optuna, for the tests of what `xoe train` logs for them, and of searches.
# ray, spark: the engines that start ranks on a cluster, for the tests of xoe.ray and xoe.spark; PyTorch and Lightning come from the
# environment pytorch, and Spark's has TensorFlow and Keras of its own. Spark needs Java 17. ray has Dask and joblib for the recipes.
# adopted: programs of other projects that train with Horovod or PyTorch, for the tests that run them on Xoe; it needs frameworks and pytorch.
# Where a peer cannot be installed, a file says why, and data/bench/run.py prints it.
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
  [pool]="schemathesis prometheus-client playwright"
  [xprof]="xprof"
  [trackers]="mlflow-skinny wandb optuna numpy"
  [ray]="ray grpcio dask distributed joblib numpy cloudpickle pytest mock"
  [spark]="pyspark pyarrow pandas tensorflow-cpu keras numpy cloudpickle pytest mock"
  [mxnet]=""    # requirements/mxnet.txt
  [mpi4jax]=""  # requirements/mpi4jax.txt
  [adopted]=""  # requirements/adopted.txt
  [frameworks]="tensorflow-cpu keras tf_keras jax optax numpy cloudpickle pytest parameterized"
)

# "NAME" -> "NAME==VERSION"
pins_of() {
  local name
  for name in "$@"; do
    grep -E "^$name==" requirements/data-peers.txt || { echo "error: $name is not in requirements/data-peers.txt" >&2 && return 1; }
  done
}

# make_mpi4jax FOLDER: uv must not take what it compiled for another MPI from its cache.
make_mpi4jax() {
  local mpicc=$root/build/peers/openmpi/bin/mpicc pins=$root/requirements/mpi4jax.txt
  if [[ ! -x $mpicc ]]; then
    echo "no build/peers/openmpi, which measure/compare/install_peers.sh openmpi installs"
    return 1
  fi
  MPICC=$mpicc MPI4JAX_BUILD_MPICC=$mpicc make_environment "$1" -r "$pins" --build-constraints "$pins" --no-binary mpi4py \
    --refresh-package mpi4py --refresh-package mpi4jax
}

for peer in "${@:-tfdata dali pytorch mlx}"; do
  for name in $peer; do
    if [[ -z ${packages[$name]+known} ]]; then
      echo "error: no such peer: $name (tfdata, dali, pytorch, mlx, frameworks, mxnet, mpi4jax, sklearn, pool, xprof, trackers, ray, spark, adopted)" >&2
      exit 1
    fi
    folder=build/peers/data-$name
    # Word splitting is wanted: several packages.
    # shellcheck disable=SC2086
    pins=$(pins_of ${packages[$name]})
    if [[ $name == mxnet || $name == mpi4jax || $name == adopted ]]; then pins=$(grep -v '^#' "requirements/$name.txt"); fi
    wanted=$pins
    if [[ $name == mpi4jax ]]; then wanted+=$'\n'$root/build/peers/openmpi; fi  # it finds that by its path
    if [[ -x $folder/bin/python && -f $folder/installed && $(<"$folder/installed") == "$wanted" ]]; then
      continue
    fi
    say "installing $name into $folder"
    make=(make_environment "$folder")
    # shellcheck disable=SC2206
    if [[ $name == mpi4jax ]]; then make=(make_mpi4jax "$folder"); else make+=($pins); fi
    if [[ $name == adopted ]]; then make+=(--no-deps); fi
    if why=$("${make[@]}" 2>&1); then
      # PyTorch and its libraries are three gigabytes: once is enough.
      below=()
      case $name in
        frameworks | ray | spark | trackers) below=(pytorch) ;;
        adopted) below=(frameworks pytorch) ;;
      esac
      for other in "${below[@]}"; do
        (cd build/peers/data-"$other"/lib/python3*/site-packages && pwd -P) >"$(echo "$folder"/lib/python3*/site-packages)/$other.pth"
      done
      echo "$wanted" >"$folder/installed"
      rm -f "$folder.why"
    else
      echo "warning: $name could not be installed; the others can still be measured" >&2
      rm -rf "$folder"
      echo "${why:-no message}" >"$folder.why"
    fi
  done
done
