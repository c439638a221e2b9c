#!/usr/bin/env bash
# Makes the pages in build/docs: every document, the Python API, and the C++ API from the comments of
# include/outsize. An argument names another folder of headers, a second one another place for the pages.
set -euo pipefail
headers="${1:-include/outsize}" pages="${2:-build/docs}"
if ! command -v doxygen > /dev/null; then
  echo "outsize: the pages of the C++ API need doxygen, which is not installed. On Debian: apt-get install doxygen" >&2
  exit 1
fi
cd "$(dirname "$0")/.."
mkdir -p "$pages/cpp"
{ cat docs/Doxyfile; echo "INPUT = $headers"; echo "OUTPUT_DIRECTORY = $pages/cpp"; } | doxygen -
"${VENV:-.venv}/bin/python" tools/make_pages.py "$pages"
echo "outsize: the pages begin at $pages/index.html"
