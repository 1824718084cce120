#!/usr/bin/env bash
# The comparison with other engines: installs the peers, builds, measures. Arguments go to bench/run.py.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
scripts/setup.sh --with bench release
exec .venv/bin/python bench/run.py "$@"
