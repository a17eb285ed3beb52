"""The wheel, installed in an environment of its own and used outside the repository; part of `make test-wheel`.

SCIOPS_WHEEL=bare      installs all dependencies from the registry, wheels only (some gigabytes with torch)
SCIOPS_WHEEL=borrow    takes the dependencies of this environment instead, and the package alone from the wheel
"""

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODE = os.environ.get("SCIOPS_WHEEL", "")

pytestmark = pytest.mark.skipif(MODE not in ("bare", "borrow"), reason="make test-wheel runs this")


def _run(*command, cwd):
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (found,) = folder.glob("sciops-*-py3-none-any.whl")
    return found


@pytest.fixture(scope="module")
def outside(wheel, tmp_path_factory):
    """(folder outside the repository, a function that runs a program of the environment in it)."""
    folder = tmp_path_factory.mktemp("outside")
    venv.create(folder / "env", with_pip=False)
    binaries = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = binaries / ("python.exe" if os.name == "nt" else "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--only-binary", ":all:"]
    _run(*pip, *([] if MODE == "bare" else ["--no-deps"]), wheel, cwd=folder)
    if MODE == "borrow":  # behind the environment's own packages: an editable sciops there must not win
        own = _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
        (Path(own) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder, lambda name, *words: _run(binaries / name, *words, cwd=folder)


LINUX = ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]


@pytest.mark.parametrize("platforms", [LINUX, ["macosx_14_0_arm64"], ["win_amd64"]], ids=["linux", "macos", "windows"])
def test_every_core_dependency_has_a_wheel(tmp_path, platforms):
    """No compiler is needed. Of dependencies further down pip would ask for those of the running system alone."""
    core = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    where = [word for platform in platforms for word in ("--platform", platform)]
    where += ["--python-version", "3.11", "--target", tmp_path]
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps", "--only-binary", ":all:"]
    _run(*pip, *where, *core, cwd=tmp_path)


def test_the_package_comes_from_the_wheel_whole(outside):
    folder, run = outside
    code = "import sciops, studies, data_gen; print(sciops.__file__, studies.__file__, data_gen.__file__)"
    assert all(Path(path).is_relative_to(folder) for path in run("python", "-c", code).split())


def test_the_first_commands_work_outside_the_repository(outside):
    folder, run = outside
    (folder / "studies").mkdir(exist_ok=True)
    (folder / "studies" / "__init__.py").write_text("")
    assert "resolution_shift" in run("sciops", "study") and "darcy" in run("python", "-m", "sciops", "generate")
    size = ["--samples", "20", "--resolutions", "17", "9", "--threads", "1", "--no-progress"]
    run("sciops", "generate", "darcy", "--preset", "quick", *size, "--output", "d.h5")
    assert "sciops train --data d.h5" in run("sciops", "info", "d.h5")
    small = ["--epochs", "1", "--width", "4", "--depth", "1", "--modes", "2", "--no-progress"]
    run("sciops", "train", "--data", "d.h5", "--resolution", "9", *small, "--output", "run")
    assert "Normalized" in run("python", "-c", "import sciops; print(type(sciops.load_model('run')).__name__)")
