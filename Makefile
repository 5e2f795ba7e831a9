# Every target makes and reuses .venv. `make setup TORCH=...` takes another build of torch: a
# requirement ("torch==2.13.0"), or the path of a wheel.
PYTHON ?= python3
TORCH ?= $(shell sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements.txt)
ROW ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TOOLS := $(shell sed -n 's/^\(setuptools[^ ]*\).*/"\1"/p' requirements.txt)

.PHONY: setup run test soak lint types docs bench bench-setup wheel core-size clean

setup: .venv/ready .venv/ready-dev

# visdom builds from source with the set-up tools of the venv, so those come first; torch comes
# apart, so that another build of it can take the pin's place
.venv/ready: requirements.txt requirements-board.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) $(TOOLS) wheel
	$(PIP) "$(TORCH)"
	grep -v '^torch' requirements.txt > .venv/requirements-rest.txt
	$(PIP) -r .venv/requirements-rest.txt
	$(PIP) --no-build-isolation -r requirements-board.txt \
	  || echo "no board: visdom could not be installed; training and curves.png go on without it"
	-$(BIN)/python -m utils.board_server --prepare
	touch $@

# MinAtar comes without its own requirements, which only its drawing needs; see its file
.venv/ready-dev: .venv/ready requirements-dev.txt requirements-atari.txt requirements-box2d.txt \
  requirements-data.txt requirements-minatar.txt requirements-video.txt
	$(PIP) -r requirements-dev.txt -r requirements-atari.txt -r requirements-box2d.txt \
	  -r requirements-data.txt -r requirements-video.txt
	$(PIP) --no-deps -r requirements-minatar.txt
	touch $@

run: .venv/ready
	$(BIN)/python main.py $(ROW)

test: .venv/ready-dev
	$(BIN)/python -m pytest

soak: .venv/ready-dev
	ENGRAM_HYPOTHESIS=soak $(BIN)/python -m pytest -m "not gpu" --timeout 3600

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/ready-dev
	$(BIN)/mypy

docs: .venv/ready-dev
	$(BIN)/python -m utils.reference > docs/options.md

bench: .venv/ready-dev
	$(BIN)/python -m benchmarks.basics
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.sampling
	$(BIN)/python -m benchmarks.train_speed

# Each peer of benchmarks/peers in a venv of its own, since they ask for versions that clash; one
# that cannot be installed is named and left out
PEERS := sb3 tianshou torchrl cpprb dopamine reverb sbx pfrl evotorch

bench-setup: $(PEERS:%=.bench/venvs/%/ready)

.bench/venvs/%/ready: benchmarks/peers/requirements-%.txt
	@mkdir -p $(@D)
	@( test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D); \
	   for file in benchmarks/peers/requirements-$*-bare.txt; do \
	     test ! -e $$file || $(@D)/bin/python -m pip install --no-deps -r $$file || exit 1; \
	   done; \
	   $(@D)/bin/python -m pip install -r $< ) > $(@D)/install.log 2>&1 \
	&& touch $@ && echo "$*: ready" \
	|| echo "no $*: it could not be installed; $(@D)/install.log says why"

# `core` alone, as the package engram, for those who want a memory without the rest
wheel: .venv/ready
	$(BIN)/python packaging/build.py --to dist

core-size:
	@find core -name '*.py' -print0 | xargs -0 cat | wc -l | xargs echo "lines in core:"

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
