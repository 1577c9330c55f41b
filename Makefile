# The one command for each thing that a person, a hook or CI does here. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest
# Another interpreter: make setup PYTHON=/path/to/python3.13
PYTHON ?=
# More words for pytest: make test-unit ARGS="-k claims -x"
ARGS ?=
WORKERS ?= auto
DEVCLUSTER := hack/devcluster/devcluster

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PIP_ROOT_USER_ACTION := ignore

say = @printf '\033[1m==>\033[0m %s\n' "$(1)" >&2

##@ Start here

.PHONY: help
help: ## List what there is
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z0-9-]*:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: setup ## Set up, then show a claim's way from a mock machine to a container's devices
	$(call say,gpu-dra demo)
	@$(BIN)/gpu-dra demo $(ARGS)

.PHONY: test
test: lint test-all ## Set up, then everything that needs no cluster and no GPU: lint and all tests

##@ Setting up

.PHONY: setup
setup: $(VENV)/.installed ## Make .venv with pinned, hashed tools (quick when nothing changed)

$(VENV)/.made:
	@python=$$(hack/find-python.sh $(PYTHON)); \
	printf '\033[1m==>\033[0m %s\n' "making $(VENV) with $$($$python --version) ($$python)" >&2; \
	rm -rf $(VENV); \
	$$python -m venv $(VENV) || { echo "making $(VENV): $$python has no venv or pip; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.requirements: requirements-dev.txt $(VENV)/.made
	$(call say,installing the pinned requirements into $(VENV) (a minute or two; only when they change))
	@$(BIN)/pip install --quiet --require-hashes --requirement requirements-dev.txt
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.requirements
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	$(call say,gpu-dra is $(BIN)/gpu-dra (on the PATH after: . $(BIN)/activate))

##@ Checks, quick to slow

.PHONY: lint
lint: lint-format lint-code lint-types lint-imports lint-size lint-hosts lint-licences lint-docs proto-check ## All checks of the code without running it

.PHONY: lint-format
lint-format: setup ## The code is formatted (make format does it)
	$(call say,ruff format --check)
	@$(BIN)/ruff format --quiet --check . || { echo "Run: make format" >&2; exit 1; }

.PHONY: lint-code
lint-code: setup ## ruff's rules
	$(call say,ruff check)
	@$(BIN)/ruff check --quiet .

.PHONY: lint-types
lint-types: setup ## mypy, strict
	$(call say,mypy)
	@$(BIN)/mypy --no-error-summary

.PHONY: lint-imports
lint-imports: setup ## The import contracts of pyproject.toml: who may use whom
	$(call say,import contracts)
	@out=$$($(BIN)/lint-imports --no-logo 2>&1) || { printf '%s\n' "$$out" >&2; exit 1; }

.PHONY: lint-size
lint-size: setup ## No file over 400 lines, no function over 60
	$(call say,sizes of files and functions)
	@$(BIN)/python -m hack.checks.size

.PHONY: lint-hosts
lint-hosts: setup ## No file names a package registry
	$(call say,no package registry in the tree)
	@$(BIN)/python -m hack.checks.hosts

.PHONY: lint-licences
lint-licences: setup ## What we build on may be given on under our licence
	$(call say,licences of what we build on)
	@$(BIN)/python -m hack.checks.licences

.PHONY: lint-docs
lint-docs: setup ## Links, pages and make targets that documents and help name exist
	$(call say,documents)
	@$(BIN)/python -m hack.checks.docs

.PHONY: test-all
test-all: setup ## Unit, component and contract tests, in parallel
	$(call say,all tests that need no cluster and no GPU)
	@$(PYTEST) -n $(WORKERS) -m "not e2e and not gpu" $(ARGS)

.PHONY: test-unit
test-unit: setup ## Tests of single modules: no sockets, no waiting
	$(call say,unit tests)
	@$(PYTEST) -n $(WORKERS) -m "not e2e and not gpu" tests/unit $(ARGS)

.PHONY: test-component
test-component: setup ## Tests of a whole server or process
	$(call say,component tests)
	@$(PYTEST) -n $(WORKERS) -m "not e2e and not gpu" tests/component $(ARGS)

.PHONY: test-contract
test-contract: setup ## The same cases against our fakes and the real thing
	$(call say,contract tests)
	@$(PYTEST) -n $(WORKERS) -m "not e2e and not gpu" tests/contract $(ARGS)

.PHONY: coverage
coverage: setup ## Which lines of driver/ no test runs
	$(call say,tests with coverage)
	@$(PYTEST) -n $(WORKERS) -m "not e2e and not gpu" --cov=driver --cov-branch --cov-report=term-missing:skip-covered $(ARGS)

##@ On a real node (as root, on Linux)

.PHONY: e2e
e2e: setup ## Build and start a real node, run the scenarios (ARGS="--only TEXT" for some)
	$(call say,end to end)
	@PYTHON=$(BIN)/python hack/devcluster/e2e.sh $(ARGS)

.PHONY: e2e-soak
e2e-soak: setup ## The same with the long counts; writes a dated report
	$(call say,end to end with long counts)
	@PYTHON=$(BIN)/python hack/devcluster/e2e.sh --soak $(ARGS)

.PHONY: image
image: ## Build the image where no registry is at hand, as build/gpu-dra.tar (else: docker build .)
	$(call say,image)
	@hack/image/build.sh $(ARGS)

.PHONY: bench
bench: setup ## Measure: one JSON line a figure
	$(call say,benchmark)
	@$(BIN)/python -m hack.bench $(ARGS)

.PHONY: fuzz
fuzz: setup ## Throw hostile input at a running plugin (ARGS="--seed 2 --count 5000 --only files")
	$(call say,fuzzing the kubelet plugin)
	@$(BIN)/python -m hack.fuzz $(ARGS)

.PHONY: cluster-build
cluster-build: ## Build Kubernetes, containerd and etcd from their modules (KUBE_VERSION=1.37.2)
	@$(DEVCLUSTER) build

.PHONY: cluster-up
cluster-up: ## Start the node and wait until it is Ready
	@$(DEVCLUSTER) up

.PHONY: cluster-down
cluster-down: ## Stop the node and remove its state
	@$(DEVCLUSTER) down

.PHONY: cluster-status
cluster-status: ## What of the node runs
	@$(DEVCLUSTER) status

.PHONY: cluster-logs
cluster-logs: ## The end of a component's log: make cluster-logs NAME=kubelet
	@$(DEVCLUSTER) logs $(or $(NAME),kubelet)

##@ Changing things

.PHONY: format
format: setup ## Format the code and sort its imports
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format .

.PHONY: proto
proto: setup ## Make the stubs of driver/pb from proto/
	@$(BIN)/python -m hack.checks.gen_proto

.PHONY: proto-check
proto-check: setup ## The stubs of driver/pb follow from proto/
	$(call say,stubs follow from proto/)
	@$(BIN)/python -m hack.checks.gen_proto --check

.PHONY: docs
docs: setup ## Make the pages that follow from the code, such as docs/attributes.md
	@$(BIN)/python -m hack.docs

.PHONY: manifests
manifests: ## Render the chart as plain manifests: deploy/manifests
	@hack/manifests.sh

.PHONY: requirements
requirements: ## Pin the requirements anew from pyproject.toml
	$(call say,resolving requirements)
	@hack/pin-requirements.sh

.PHONY: hooks
hooks: setup ## Have git run the quick checks before each commit
	@$(BIN)/pre-commit install

.PHONY: clean
clean: ## Remove .venv and the tools' caches (not the node's binaries, which take long to build)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* dist build
	find driver hack tests -name __pycache__ -type d -prune -exec rm -rf {} +
