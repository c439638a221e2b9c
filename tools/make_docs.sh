#!/usr/bin/env bash
# Makes the API pages in build/docs from the comments of include/outsize. An argument names another
# folder of headers, a second one another place for the pages.
set -euo pipefail
headers="${1:-include/outsize}" pages="${2:-build/docs}"
if ! command -v doxygen > /dev/null; then
  echo "outsize: the API pages need doxygen, which is not installed. On Debian: apt-get install doxygen" >&2
  exit 1
fi
cd "$(dirname "$0")/.."
mkdir -p "$pages"
{ cat docs/Doxyfile; echo "INPUT = $headers"; echo "OUTPUT_DIRECTORY = $pages"; } | doxygen -
echo "outsize: the API pages begin at $pages/index.html"
