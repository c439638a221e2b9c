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

echo "outsize: building (the first time takes a few minutes)"
log=build/install.log
mkdir -p build
if ! "$venv/bin/python" -m pip --disable-pip-version-check install --no-build-isolation --no-deps \
    --editable . -v < /dev/null > "$log" 2>&1; then
  grep -E -A6 'error|Error|FAILED' "$log" | head -n 60 >&2 || true
  echo "outsize: the build failed; the whole log is in $log" >&2
  exit 1
fi
