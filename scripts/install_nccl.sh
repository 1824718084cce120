#!/usr/bin/env bash
# NCCL, the CUDA runtime and the headers of NVML and NVTX from PyPI, at the versions of requirements/nccl.txt, below build/peers/nccl: the build
# then compares Xoe's declarations with NVIDIA's, and a test loads the libraries. Neither needs a GPU.
#   scripts/install_nccl.sh
# Where they cannot be installed a file says why, and the build and the test go without them.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

folder=build/peers/nccl
python=$folder/bin/python
pins=$(<requirements/nccl.txt)

if [[ -x $python && -f $folder/installed && $(<"$folder/installed") == "$pins" ]]; then
  exit 0
fi
say "installing NVIDIA's headers and libraries into $folder (about 220 MB to download)"
mkdir -p build/peers
if why=$(make_environment "$folder" --no-deps -r requirements/nccl.txt 2>&1); then
  echo "$pins" >"$folder/installed"
  rm -f "$folder.why"
else
  echo "warning: they could not be installed ($folder.why says why): Xoe's declarations of NCCL and CUDA stay unchecked" >&2
  rm -rf "$folder"
  echo "${why:-no message}" >"$folder.why"
fi
