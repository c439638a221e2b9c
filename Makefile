# Two commands: `make demo` and `make test`. Both set everything up first and rebuild nothing that is
# up to date. Anything longer than a line lives in tools/.

PYTHON ?= python3
VENV   := .venv
STAMPS := build/stamps
export PYTHON VENV

# Directories too, so that a file that appears or disappears is noticed.
sources := $(shell find core predictors planners platforms traces sim python/bindings adapter include cmake \
             \( -name '*.cpp' -o -name '*.h' -o -name '*.cmake' -o -name '*.in' -o -type d \) \
             ! -name '*_test.cpp' 2>/dev/null) CMakeLists.txt pyproject.toml

.DEFAULT_GOAL := help
.PHONY: demo test setup wheel docs clean distclean help

demo: setup ## Train GPT-2 in two fifths, then a fifth, of the memory it needs
	$(VENV)/bin/outsize demo

test: setup $(STAMPS)/browser ## Run every test; the last line says how many passed
	$(VENV)/bin/python tools/run_tests.py

setup: $(STAMPS)/installed ## Make .venv and build outsize into it
	@echo "outsize is in .venv. Next: . $(VENV)/bin/activate, then outsize doctor"

wheel: $(STAMPS)/venv ## Build a wheel into dist/
	$(VENV)/bin/python -m pip wheel --no-build-isolation --no-deps -w dist .

docs: $(STAMPS)/venv ## Make the pages of all documents and both APIs in build/docs (needs doxygen)
	tools/make_docs.sh

clean: ## Remove everything built, keep .venv
	rm -rf build dist

distclean: clean ## Remove .venv too
	rm -rf $(VENV)

help: ## Say what there is
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 20

$(STAMPS)/system: tools/system_packages.sh
	tools/system_packages.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/browser:
	tools/system_packages.sh --browser
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/venv: $(STAMPS)/system requirements-torch.txt requirements.txt constraints.txt tools/setup_venv.sh
	tools/setup_venv.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/installed: $(STAMPS)/venv $(sources)
	tools/install_package.sh
	@touch $@
