#!/usr/bin/env bash
# Makes the virtual environment and installs the pinned packages, torch first and alone.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
venv="${VENV:-.venv}"

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@" < /dev/null; }

# The CPU build is enough and a tenth of the size, but only an index that has it can give it; without
# one the plain name gets whatever build the configured index holds.
version="$(sed -n 's/^torch==//p' requirements-torch.txt)"
installed="$("$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))' 2> /dev/null || true)"
if [ "${installed%%+*}" != "$version" ]; then
  echo "outsize: installing torch $version"
  if ! pip install -c constraints.txt "torch==$version+cpu" 2> /dev/null; then
    echo "outsize: this package index has no CPU-only torch; installing its default build, which may" \
         "be several GB (point PIP_EXTRA_INDEX_URL at PyTorch's CPU index to avoid that)"
    pip install -c constraints.txt -r requirements-torch.txt
  fi
fi
echo "outsize: installing the other Python packages (a minute or so)"
pip install --quiet -r requirements.txt
