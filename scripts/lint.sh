#!/usr/bin/env bash
# Formatting, shell scripts, the rules of the tree, clang-tidy over everything but tests and what includes libtorch (whose headers take
# clang-tidy a minute a file; XOE_LINT_TORCH=1 includes it), and for those two a compiler, file by file. A file that passed is checked
# again when something that it depends on has changed (scripts/check_files.py).
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
scripts/setup.sh --with lint
mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cc')
failed=()

say "clang-format: ${#sources[@]} files"
clang-format --dry-run -Werror "${sources[@]}" || failed+=("clang-format (run \`make format\`)")

say "shellcheck"
mapfile -t scripts < <(git ls-files -- '*.sh')
shellcheck -x "${scripts[@]}" .ci/run || failed+=(shellcheck)

install_lint_tools
tools=build/peers/lint
say "Python: ruff and mypy"
"$tools/bin/ruff" check -q . || failed+=("ruff check")
"$tools/bin/ruff" format -q --check frameworks/python frameworks/tests/python frameworks/bench/python measure/gpu || failed+=("ruff format (run \`make format\`)")
# PyTorch's types are read from .venv.
"$tools/bin/mypy" --python-executable .venv/bin/python || failed+=(mypy)

say "documents"
format_documents --check || failed+=("mdformat (run \`make format\`)")

say "rules of the tree"
for check in includes words classes; do
  "scripts/check_$check.py" || failed+=("check_$check")
done

# Databases of compile commands, file by file; what is generated is nothing, so no build is needed.
run_step "configure lint" cmake --preset release -B build/lint -DXOE_UNITY=OFF
without_torch=build/lint
if [[ ${XOE_LINT_TORCH:-} != 1 ]]; then
  without_torch=build/lint-without-torch
  run_step "configure lint without torch" cmake --preset asan -B "$without_torch" -DXOE_UNITY=OFF
fi
files_of() { sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$1/compile_commands.json" | grep -vF "$PWD/build/" | sort -u; }
mapfile -t units < <(files_of "$without_torch" | grep -vE '/(tests|\.venv)/')
say "clang-tidy: ${#units[@]} files"
scripts/check_files.py tidy "$without_torch" "${units[@]}" || failed+=(clang-tidy)

mapfile -t others < <(comm -23 <(files_of build/lint) <(printf '%s\n' "${units[@]}"))
say "the other ${#others[@]} files, each compiled alone"
scripts/check_files.py compile build/lint "${others[@]}" || failed+=("compiling alone")

if ((${#failed[@]} > 0)); then
  printf -v list '%s, ' "${failed[@]}"
  die "lint found something: ${list%, }"
fi
say "nothing to complain about"
