#!/usr/bin/env bash
# Rewrites every C++ file of the repository as .clang-format says, and the Python package as pyproject.toml does, and wraps the documents.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
scripts/setup.sh --with lint --no-python
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' | xargs -0 --no-run-if-empty clang-format -i
install_lint_tools
build/peers/lint/bin/ruff format -q frameworks/python frameworks/tests/python frameworks/bench/python measure/gpu
format_documents "$@"
