#!/usr/bin/env bash
# Sees to the system packages that the build needs: a C++20 compiler, CMake >= 3.25, Ninja, GoogleTest,
# xxHash, zstd and Python's headers. Installs what is missing where it may (root and apt), else prints one line
# to paste. Asks nothing: it runs in CI too. With --browser it sees to a headless Chromium instead, which only
# tests of pages need: where it cannot be had they are skipped.
set -euo pipefail
python="${PYTHON:-python3}"

fail() { echo "outsize: $*" >&2; exit 1; }

command -v "$python" > /dev/null || fail "no '$python' here. Install Python 3.11 or later, or say make PYTHON=…"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$python" --version) is too old: Python 3.11 or later is needed. Say make PYTHON=python3.11"

see_to_browser() {
  local name
  for name in "${OUTSIZE_TEST_BROWSER:-}" chromium-headless-shell chromium chromium-browser google-chrome; do
    [ -n "$name" ] && command -v "$name" > /dev/null && return
  done
  if [ "$(id -u)" -eq 0 ] && command -v apt-get > /dev/null; then
    echo "outsize: installing chromium-headless-shell (100 MB), for tests of pages"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq &&
      apt-get install -y -qq --no-install-recommends chromium-headless-shell < /dev/null > /dev/null && return
  fi
  echo "outsize: there is no Chromium, so tests of pages are skipped." >&2
}
if [ "${1:-}" = --browser ]; then
  see_to_browser
  exit 0
fi

has_cxx20() {
  local compiler="${CXX:-c++}"
  command -v "$compiler" > /dev/null &&
    echo '#include <span>
int main() { return static_cast<int>(std::span<int>().size()); }' |
      "$compiler" -std=c++20 -x c++ -fsyntax-only - 2> /dev/null
}
has_cmake() {
  local version
  version="$(cmake --version 2> /dev/null | sed -n 's/^cmake version //p')"
  [ -n "$version" ] && [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n1)" = 3.25 ]
}
has_headers() {
  "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))'
}
has_gtest() {
  echo '#include <gmock/gmock.h>' | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2> /dev/null
}

has_xxhash() {
  echo '#include <xxhash.h>' | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2> /dev/null
}
has_zstd() {
  echo '#include <zstd.h>' | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2> /dev/null
}

missing=()
has_cxx20 || missing+=(g++)
has_cmake || missing+=(cmake)
command -v ninja > /dev/null || missing+=(ninja-build)
has_gtest || missing+=(libgtest-dev libgmock-dev)
has_xxhash || missing+=(libxxhash-dev)
has_zstd || missing+=(libzstd-dev)
has_headers || missing+=(python3-dev)
"$python" -c 'import ensurepip' 2> /dev/null || missing+=(python3-venv)
[ "${#missing[@]}" -eq 0 ] && exit 0

command -v apt-get > /dev/null ||
  fail "missing: ${missing[*]} (Debian's names). Install them with this system's package manager."
if [ "$(id -u)" -ne 0 ]; then
  echo "outsize needs a few system packages first. Paste this, then run make again:" >&2
  echo "sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
  exit 1
fi
echo "outsize: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" < /dev/null
has_cxx20 || fail "the compiler '${CXX:-c++}' knows no C++20; set CXX to one that does (g++ 12 or later)."
has_cmake || fail "$(cmake --version | head -n1) is too old: 3.25 or later is needed. Try: pip install cmake"
has_headers || fail "Python.h of '$python' is missing; install its headers, or say make PYTHON=/usr/bin/python3"
