import os
import subprocess
import sys
import time

import pytest

from studies.kit.pool import pool, run_all

SCRIPT = """
from os import getpid, getppid
from studies.kit.pool import pool

with pool(2) as executor:
    print({executor.submit(getppid).result()} == {getpid()}, executor.submit(divmod, 7, 2).result())
    print(__file__ if "__file__" in globals() else "no file")
print(__file__ if "__file__" in globals() else "no file")
"""


def test_one_worker_is_this_process_and_calls_in_turn():
    done = []
    with pool(1) as executor:
        for value in range(3):
            assert executor.submit(done.append, value).done()
        assert executor.submit(os.getpid).result() == os.getpid()
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0)
    assert done == [0, 1, 2]


@pytest.mark.parametrize("way", ["standard input", "-c"])
def test_workers_start_from_a_script_that_is_no_file(way):
    words, given = (["-"], SCRIPT) if way == "standard input" else (["-c", SCRIPT], None)
    done = subprocess.run([sys.executable, *words], input=given, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["True (3, 1)", "no file"] and lines[2] == ("<stdin>" if way == "standard input" else "no file")


def test_a_block_that_fails_cancels_what_waits():
    futures = []
    with pytest.raises(ZeroDivisionError), pool(2, threads=1) as executor:
        futures += [executor.submit(divmod, 1, 0)]
        futures += [executor.submit(time.sleep, 0.2) for _ in range(20)]
        futures[0].result()
    assert any(future.cancelled() for future in futures) and all(future.done() for future in futures)


def test_results_come_in_the_order_of_the_jobs_and_the_first_failure_ends_the_run():
    jobs = [(7, 2), (9, 4), (5, 5)]
    for workers in (1, 2):
        assert run_all(divmod, jobs, workers=workers, unit="job") == [divmod(*job) for job in jobs]
    done = []
    with pytest.raises(ZeroDivisionError):
        run_all(lambda a, b: done.append(a // b), [(1, 1), (1, 0), (2, 1)], workers=1, unit="job")
    assert done == [1]
