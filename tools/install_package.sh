#!/usr/bin/env bash
# Builds the C++ libraries (incrementally, in build/wheel) and installs outsize into the virtual
# environment in editable form: Python sources are used where they lie.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV:-.venv}"

# Each compiler that includes PyTorch's headers takes up to 2 GB; do not start more than fit.
jobs="$(nproc)"
fit="$(awk '/MemAvailable/ { print int($2 / 2000000) }' /proc/meminfo)"
if [ "${fit:-1}" -lt "$jobs" ]; then jobs="$fit"; fi
if [ "$jobs" -lt 1 ]; then jobs=1; fi
export CMAKE_BUILD_PARALLEL_LEVEL="$jobs"

# The compiler's steps, one line that rewrites itself on a terminal, every tenth elsewhere.
progress() {
  local terminal=0
  if [ -t 1 ]; then terminal=1; fi
  awk -v terminal="$terminal" '
    match($0, /^ *\[[0-9]+\/[0-9]+\] /) {
      sub(/^ */, ""); split(substr($1, 2), count, "/")
      if (terminal) { printf "\r\033[K%s", substr($0, 1, 100); fflush() }
      else if (count[1] % 10 == 0) { print; fflush() }
      shown = 1
    }
    END { if (terminal && shown) print "" }'
}

echo "outsize: building the C++ libraries with $jobs job(s); log in build/install.log"
log=build/install.log
mkdir -p build
if ! "$venv/bin/python" -m pip --disable-pip-version-check install --no-build-isolation --no-deps \
    --editable . -v < /dev/null 2>&1 | tee "$log" | progress; then
  grep -E -A6 'error|Error|FAILED' "$log" | head -n 60 >&2 || true
  echo "outsize: the build failed; the whole log is in $log" >&2
  exit 1
fi
