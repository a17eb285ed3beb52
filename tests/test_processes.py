"""Workers end when the process that began them is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_BUSY = """
    import os, time
    from sciops.processes import end_with_parent

    def busy():
        os.write(1, f"{os.getpid()}\\n".encode())  # in one piece: three processes write there
        time.sleep(60)
"""
_PROCESS = """
    import multiprocessing
    from busy import busy, end_with_parent

    def work():
        end_with_parent()
        busy()

    if __name__ == "__main__":
        for _ in range(2):
            multiprocessing.get_context({method!r}).Process(target=work).start()
        busy()
"""
_POOL = """
    from busy import busy
    from studies.kit.pool import pool

    if __name__ == "__main__":
        with pool(2) as executor:
            executor.submit(busy)
            executor.submit(busy)
            busy()
"""


@pytest.mark.parametrize(
    "code", [*(_PROCESS.format(method=method) for method in ("fork", "spawn", "forkserver")), _POOL]
)
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, code: str) -> None:
    for name, text in (("busy.py", _BUSY), ("main.py", code)):
        (tmp_path / name).write_text(textwrap.dedent(text))
    where = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
    with subprocess.Popen(
        [sys.executable, "main.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # of the resource tracker, which finds what the killed parent left
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": where},
    ) as parent:
        try:
            found = {int(parent.stdout.readline()) for _ in range(3)}
            for one in found:
                os.kill(one, 0)
        finally:
            parent.kill()
        # at the end of the last process that can write there
        rest, _ = parent.communicate(timeout=20)
    assert len(found) == 3 and rest == ""
