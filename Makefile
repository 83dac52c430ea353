# svload: `make` alone lists the verbs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
MADE := .venv/made
STEP := tools/step.sh
PYTEST := $(BIN)/python -m pytest
ENGINE := $(shell find engine -name target -prune -o \( -name '*.rs' -o -name Cargo.toml -o -name Cargo.lock.in \) -print 2>/dev/null)

# One set-up at a time in a tree, whoever asks. A stamp bears the time its work began: what is edited meanwhile counts.
LOCKED := mkdir -p build && flock --wait 1200 build/setup.lock $(MAKE) -s

.PHONY: help
help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup deps
setup:  ## .venv with svload, its native engine and every tool the checks need
	@$(LOCKED) $(MADE)/svload

deps:  ## only the Python packages of .venv
	@$(LOCKED) $(MADE)/deps

$(MADE)/deps: requirements/uv.txt requirements/dev.txt tools/deps.sh
	@mkdir -p build && touch build/deps.begun && tools/deps.sh
	@mkdir -p $(MADE) && mv build/deps.begun $@

$(MADE)/svload: $(MADE)/deps pyproject.toml tools/install.sh tools/cargo_lock.py $(ENGINE)
	@touch build/svload.begun && tools/install.sh
	@mv build/svload.begun $@

.PHONY: demo
demo: setup  ## the svLoad study on the embedded lab: no root, nothing global, a report at the end
	@$(BIN)/svload demo

.PHONY: check
check:  ## the quick tests: in process, and some whole commands on the embedded lab
	@$(STEP) --begin
	@$(STEP) setup $(MAKE) setup
	@$(STEP) tests tools/beside.sh -q -m "(pure or (truth and smoke)) and not (timing or long or slow)"
	@$(STEP) --total

.PHONY: test
test:  ## lint, the engine's tests, tests in process, journeys on the embedded lab, a smoke journey on each real kit
	@tools/test.sh

.PHONY: test-real test-timing test-limits test-fuzz
# LEFT=seconds: what is not begun by then is named and not run. The commit chooses the order, so that each has its turn.
test-real: setup  ## all journeys on real servers, and the long ones (LEFT=seconds)
	@tools/beside.sh --durations=15 -m "((real and not smoke) or long) and not (timing or maven)" \
		--shuffle $(or $(SEED),$(shell git rev-parse --short=8 HEAD 2>/dev/null || echo 0)) $(if $(LEFT),--left $(LEFT))

test-timing: setup  ## the tests that assert elapsed times and rates, each in a calm moment (ONLY="PATHS -k …")
	@PLANTED=$(PLANTED) tools/test-timing.sh $(ONLY)

test-limits: setup  ## each limit of the method, a third lower and higher, must make a test fail (an hour)
	@$(BIN)/python tools/change_limits.py

test-fuzz: setup  ## the fuzzers with a fresh seed (HOURS=8)
	@$(BIN)/python -m tests.fuzz --hours $(or $(HOURS),0.1)

.PHONY: studies
studies: setup  ## the studies on their real servers with their tables (ONLY=002, PROFILE=short)
	@tools/studies.sh

.PHONY: test-vm
test-vm: deps  ## limits by version 2 of control groups, and netem, in Debian's own kernel under qemu
	@LEFT=$(LEFT) $(BIN)/python tools/test_vm.py

.PHONY: test-cloud
test-cloud: setup  ## the tests of studies/003-collaboration/cloud, and journeys with it (a JDK 17 and Maven)
	@cd studies/003-collaboration/cloud && mvn -q -B verify
	@tools/beside.sh -m maven

.PHONY: lint
lint: setup  ## format, style, types, layers; the engine's too
	@tools/lint.sh

.PHONY: bench
bench: setup  ## measure the engine on this machine (an idle one)
	@$(BIN)/python -m benches.run

.PHONY: docs
docs: setup  ## write docs/reference from the code; every example that needs no real server is run
	@$(BIN)/python tools/make_reference.py
	@$(PYTEST) -q tests/docs -m "not real"

.PHONY: site
site: setup  ## the documentation as a site in build/site: open build/site/index.html
	@NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

.PHONY: wheel
wheel: deps  ## dist/svload-….whl, which pip installs where neither Rust nor make is (OUT=folder)
	@tools/wheel.sh $(or $(OUT),dist)

.PHONY: apt
apt:  ## the real servers that the journeys need (root, Debian)
	@tools/apt-install.sh

.PHONY: relock
relock: deps  ## resolve all dependencies anew (UPGRADE=1: newer versions)
	@tools/relock.sh

.PHONY: clean
clean:  ## remove what was built; runs stay
	@rm -rf .venv build dist engine/target engine/Cargo.lock .pytest_cache .ruff_cache .mypy_cache .hypothesis \
		.import_linter_cache src/svload/_native*.so
	@find src tests tools benches -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
