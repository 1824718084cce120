# Shared by the scripts of this folder: messages, and steps whose noise goes to a log. Source it, do not run it.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
logs=$root/build/logs

say() { printf '%s\n' "xoe: $*"; }

die() {
  printf '%s\n' "error: $*" >&2
  exit 1
}

# One line that says why the step behind this log failed.
cause_of() {
  local log=$1 line
  if grep -qiE 'no space left on device|disk quota exceeded|not have enough free space' "$log" ||
    (($(df --output=avail -k "$root" | tail -n 1) < 1024)); then
    echo "the disk is full"
  elif grep -qiE 'temporary failure (in name resolution|resolving)|could not resolve|dns error|network is unreachable|no route to host' "$log"; then
    echo "the network cannot be reached"
  elif grep -qiE 'could not get lock|unable to lock' "$log"; then
    echo "another package installation is running; try again when it has ended"
  elif grep -qiE 'failed to fetch|failed to download|connection (refused|reset|timed out)|operation timed out|read timed out|error sending request|certificate|from versions: none' "$log"; then
    echo "a download failed"
  elif line=$(grep -m1 -iE 'unable to locate package|has no installation candidate|no solution found|no matching distribution' "$log"); then
    echo "$line"
  elif grep -qiE 'internal compiler error.*killed|fatal error: killed|cannot allocate memory|out of memory' "$log"; then
    echo "the memory did not suffice; try again with CMAKE_BUILD_PARALLEL_LEVEL=1"
  elif line=$(grep -m1 -E '(^|[ :])(fatal )?error: ' "$log"); then
    echo "${line#"$root"/}"
  elif line=$(grep -m1 -A2 'CMake Error' "$log" | tr -s ' \n' ' '); then
    echo "$line"
  else
    line=$(grep -v '^[[:space:]]*$' "$log" | tail -n 1)
    echo "${line:-no message}"
  fi
}

# "m:ss"
clock_text() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# show_progress NAME: copies nothing of what a long step says, but shows how far it is. Ninja's lines begin with "[done/all]": on a
# terminal they move a bar, elsewhere there is a line every quarter of a minute. Steps that do not count show their latest line.
show_progress() {
  local name=$1 columns=80 terminal="" line text="" started=$SECONDS next=$((SECONDS + 15)) done=0 all=0 width=24 filled
  if [[ -t 1 ]]; then
    terminal=yes
    columns=$(tput cols 2>/dev/null || echo 80)
  fi
  while true; do
    if IFS= read -r -t 1 line; then
      if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]]; then
        done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]} line=${BASH_REMATCH[3]##*/}
      fi
      [[ -z $line ]] || text=$line
    elif (($? <= 128)); then
      break # the step has ended; else it said nothing for a second
    fi
    if [[ -n $terminal ]]; then
      if ((all > 0)); then
        filled=$((width * done / all))
        printf -v line '%*s' "$filled" ''
        printf -v line '[%-*s] %d of %d, %s  %s' "$width" "${line// /#}" "$done" "$all" "$(clock_text $((SECONDS - started)))" "$text"
      else
        printf -v line '%s  %s' "$(clock_text $((SECONDS - started)))" "$text"
      fi
      printf '\r\033[K%s' "${line:0:columns-1}"
    elif ((SECONDS >= next)); then
      next=$((SECONDS + 15))
      if ((all > 0)); then
        say "$name: $done of $all steps after $(clock_text $((SECONDS - started)))"
      else
        say "$name: $(clock_text $((SECONDS - started)))"
      fi
    fi
  done
  if [[ -n $terminal ]]; then printf '\r\033[K'; fi
}

# run_step NAME COMMAND...: runs it with its output in a log; on failure ends with one line.
run_step() {
  local name=$1 log
  shift
  mkdir -p "$logs" 2>/dev/null || die "cannot write to ${root}/build: no permission, or the disk is full"
  log=$logs/${name// /-}.log
  if ! "$@" 2>&1 </dev/null | tee "$log" 2>/dev/null | show_progress "$name"; then
    die "$name failed: $(cause_of "$log") (details: ${log#"$root"/})"
  fi
}

# listed_packages SECTION...: the packages of these sections of packages.txt.
listed_packages() {
  local section=none line
  while IFS= read -r line || [[ -n $line ]]; do
    line=${line%%#*}
    line=${line//[[:space:]]/}
    if [[ $line == \[*\] ]]; then
      section=${line:1:-1}
    elif [[ -n $line && " $* " == *" $section "* ]]; then
      echo "$line"
    fi
  done <"$root/packages.txt"
}

# find_python VERSION...: the first Python of these versions that runs and has its headers; pyenv's are found.
find_python() {
  local version candidate
  for version in "$@"; do
    for candidate in "$(command -v "python$version" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
      if [[ -x $candidate ]] && "$candidate" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; then
        echo "$candidate"
        return
      fi
    done
  done
  return 1
}

# use_pip_settings PYTHON: uv reads no pip configuration; hands it what pip was told about the index and certificates.
use_pip_settings() {
  local index cert
  index=$("$1" -m pip config get global.index-url 2>/dev/null || "$1" -m pip config get :env:.index-url 2>/dev/null || true)
  cert=$("$1" -m pip config get global.cert 2>/dev/null || "$1" -m pip config get :env:.cert 2>/dev/null || true)
  if [[ -n $index ]]; then export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$index}; fi
  if [[ -n $cert ]]; then export SSL_CERT_FILE=${SSL_CERT_FILE:-$cert}; fi
}

# make_environment FOLDER ARGUMENT...: a Python environment of its own (of $base_python, if set), with what `uv pip install
# ARGUMENT...` installs. uv shares its downloads between environments: PyTorch's are gigabytes. Compiled at once, since each of the many processes that tests
# start would do it where PYTHONDONTWRITEBYTECODE is set. Chained, because errexit does not reach into the
# condition of an if.
make_environment() {
  local folder=$1
  shift
  rm -rf "$folder"
  "${base_python:-python3}" -m venv "$folder" &&
    "$folder/bin/python" -m pip install -q --disable-pip-version-check -r "$root/requirements/tools.txt" &&
    use_pip_settings "$folder/bin/python" &&
    "$folder/bin/uv" pip install -q --compile-bytecode --python "$folder/bin/python" "$@"
}

# What checks and formats Python, in build/peers/lint.
install_lint_tools() {
  install_environment lint "what checks Python and documents" "$root/requirements/lint.txt"
}

# format_documents [--check]: lines of at most 110 columns in every Markdown file, but for those that scripts write, and those of the
# site, whose directives mdformat does not know.
format_documents() {
  git ls-files -z --cached --others --exclude-standard -- '*.md' ':!docs/gpu.md' ':!docs/reference/articles.md' ':!docs/reference/pool-http.md' ':!docs/site/*' |
    xargs -0 "$root/build/peers/lint/bin/mdformat" --wrap 110 --number --compact-tables "$@"
}

# What builds the documentation site, in build/peers/docs.
install_docs_tools() {
  install_environment docs "what builds the documentation" "$root/requirements/docs.txt"
}

# install_environment NAME WHAT REQUIREMENTS: build/peers/NAME with what the file lists, unless it is there. Its programs name the
# folder that they were installed into, so it is made again where the checkout has moved.
install_environment() {
  local folder=$root/build/peers/$1 wanted
  wanted="$folder"$'\n'"$(cat "$3")"
  if [[ -x $folder/bin/python && -f $folder/installed && $(<"$folder/installed") == "$wanted" ]]; then
    return
  fi
  say "installing $2 into build/peers/$1"
  run_step "$1 tools" make_environment "$folder" -r "$3"
  echo "$wanted" >"$folder/installed"
}
