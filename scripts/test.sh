#!/usr/bin/env bash
# Builds what the tests of some tiers need, runs them, and ends with one line: N passed, N failed[, N skipped] (tiers: ...).
#   scripts/test.sh [--house NAME] [--changed[=COMMIT]] [--minutes N] [TIER...]
# Tiers:
#   core   (unless others are named) shows that the product works, in minutes
#   full   long runs, the models, the rest of the Python package's tests
#   peers  with TensorFlow, MPI, R, Ray, Spark, and servers: ssh, Slurm, Docker
#   frameworks   the bindings of TensorFlow, Keras, JAX and MXNet, which are downloaded then
#   kubernetes   manifests and trainings in a pretended cluster, whose programs are downloaded and built then (needs Go)
#   asan, tsan   the tests labelled unit and multiproc under the sanitizers
#   all    all of these
# --changed: only the tests that a change since COMMIT can reach (else since this branch left main); under the sanitizers,
# the tests of the folders that changed.
# --house NAME: only what one house of the tree needs is built, and only its tests run: core, data, launch, ... (scripts/houses.py).
# --minutes N: a sanitizer whose build does not end within N minutes from the start is left out, and the last line says so. The build
# goes on from there the next time.
# As root in a container the tier peers installs its servers, R and Java; elsewhere `scripts/setup.sh --with net --with r` does, or those tests are
# skipped. XOE_TEST_JOBS: how many tests run at once; else one more than there are cores, at most 8. A test whose programs and files are those of its last success
# does not run again, which the last line says; XOE_TEST_FRESH=1 runs it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
tiers=()
chosen=() # options of run_tests.py
house=
until_second=
while (($# > 0)); do
  word=$1
  shift
  case $word in
    core | full | peers | frameworks | kubernetes | asan | tsan) tiers+=("$word") ;;
    all) tiers=(core full peers frameworks kubernetes asan tsan) ;;
    --changed) chosen+=(--changed "$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)") ;;
    --house)
      house=${1-}
      [[ -n $house && -f $house/tests/CMakeLists.txt && -f $house/README.md ]] || die "--house needs one of $(python3 -c 'import sys; sys.path.insert(0, "scripts"); import houses; print(*houses.HOUSES)')"
      chosen+=(--house "$house")
      shift
      ;;
    --minutes)
      [[ ${1-} =~ ^[0-9]{1,4}$ ]] || die "--minutes needs a number of minutes, as in --minutes 30"
      until_second=$((SECONDS + 60 * 10#$1))
      shift
      ;;
    --changed=?*) chosen+=(--changed "${word#*=}") ;;
    *) die "usage: scripts/test.sh [--house NAME] [--changed[=COMMIT]] [--minutes N] [core|full|peers|frameworks|kubernetes|asan|tsan|all]..." ;;
  esac
done
if ((${#tiers[@]} == 0)); then tiers=(core); fi

wants() { [[ " ${tiers[*]} " == *" $1 "* ]]; }

scripts/setup.sh
if wants full || wants peers; then
  # The build compares with NVIDIA's headers; where they cannot be installed, it goes without them.
  scripts/install_nccl.sh
fi
# The documentation site; its test is skipped where its tools are missing.
if wants full; then
  if ((EUID == 0)); then scripts/setup.sh --with docs; fi
  (install_docs_tools) || true
fi
# Not where a service manager would start the servers that come with them.
if wants peers && ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with net --with r --with spark; fi
if wants kubernetes; then
  if ((EUID == 0)) && [[ ! -d /run/systemd/system ]]; then scripts/setup.sh --with kubernetes; fi
  launch/tests/kubernetes/install.sh || true # its tests are skipped where its programs cannot be had
fi
# Python's tests need a PyTorch that Python can import, some TensorFlow too; while they are downloaded the build goes on. What cannot
# be installed is skipped.
environments=(pytorch pool)
if wants peers; then environments+=(tfdata xprof trackers ray spark); fi
if wants frameworks; then environments+=(frameworks mxnet); fi
downloads=
if wants core || wants full || wants peers || wants frameworks || wants kubernetes || wants asan; then
  data/bench/install_peers.sh "${environments[@]}" &
  downloads=$!
fi

# build_within TIER TARGETS: builds what a sanitizer's tests need, as long as the time that --minutes gave lasts.
build_within() {
  local code=0
  if [[ -z $until_second ]]; then
    scripts/setup.sh "$1:$2"
    return
  fi
  if ((until_second > SECONDS)); then
    timeout "$((until_second - SECONDS))" scripts/setup.sh "$1:$2" || code=$?
  else
    code=124
  fi
  if ((code == 124)); then scripts/run_tests.py cut "$1"; fi
  return "$code"
}

# A build that fails counts as a failed test. For the sanitizers only what their tests need is built.
scripts/run_tests.py forget "${tiers[@]}"
run_preset() {
  local preset=$1 targets=()
  shift
  if [[ $preset == release && -z $house ]]; then
    scripts/setup.sh release || return 0
  else
    scripts/setup.sh --configure "$preset" || return 0
    mapfile -t targets < <(scripts/run_tests.py targets "$preset" "$@" "${chosen[@]}")
    if ((${#targets[@]} > 0)); then
      build_within "$preset" "$(IFS=, && echo "${targets[*]}")" || return 0
    fi
  fi
  if [[ -n $downloads ]]; then wait "$downloads" || true; fi
  scripts/run_tests.py run "$preset" "$@" "${chosen[@]}"
}

release=()
for tier in core full peers frameworks kubernetes; do
  if wants "$tier"; then release+=("$tier"); fi
done
if ((${#release[@]} > 0)); then run_preset release "${release[@]}"; fi
for tier in asan tsan; do
  if wants "$tier"; then run_preset "$tier" "$tier"; fi
done
scripts/run_tests.py summary "${tiers[@]}"
