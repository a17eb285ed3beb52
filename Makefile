# Two commands do everything on a fresh machine with Python >= 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MPLBACKEND = Agg
export HF_HUB_OFFLINE = 1
export WANDB_MODE = disabled
# Empty: compiled modules are kept, also where the environment says otherwise; every process of the tests reads them.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-times test-portable test-wheel lint docs clean

# One stamp per set of extras, remade when the pins or the metadata change.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$*]"
	touch $@

demo: $(VENV)/.installed-fast
	$(BIN)/sciops demo

test: $(VENV)/.installed-audit,cluster,download,fast,onnx,robust,speech,test,text,vision
	$(BIN)/python -m compileall -q -j 2 sciops studies data_gen
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# CPU seconds of every test file, the largest first: what a slower run of all tests is looked for with.
test-times: $(VENV)/.installed-audit,cluster,download,fast,onnx,robust,speech,test,text,vision
	$(BIN)/python tests/time_by_file.py

# The tests that compare bits, as on other processors: about four minutes a setting.
test-portable: $(VENV)/.installed-audit,cluster,download,fast,onnx,robust,speech,test,text,vision
	$(BIN)/python tests/portable.py

# The wheel in a bare environment outside the repository; `make test-wheel SCIOPS_WHEEL=borrow` downloads no dependencies.
SCIOPS_WHEEL ?= bare
test-wheel: $(VENV)/.installed-test
	SCIOPS_WHEEL=$(SCIOPS_WHEEL) $(BIN)/python -m pytest --confcutdir tests/packaging tests/packaging

lint: $(VENV)/.installed-lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.installed-cluster,docs,fast,vision
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist docs/_build
