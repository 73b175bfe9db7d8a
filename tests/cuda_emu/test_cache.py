"""Compiled objects are made once on a machine, and a failure keeps nobody from the next try."""

import subprocess
import sys
import threading

import pytest
from cuda_emu import cache

pytestmark = pytest.mark.cpu

MAKE_SLOWLY = """
import sys, time
from cuda_emu import cache

def make(scratch):
    print("made", flush=True)
    time.sleep(0.3)
    (scratch / "made").write_text("object")
    return scratch / "made"

assert cache.kept("object", make).read_text() == "object"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRAD_GPU_EMU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(text):
    def make(scratch):
        (scratch / "x").write_text(text)
        return scratch / "x"

    return make


def test_processes_that_want_one_object_make_it_once(folder):
    command = [sys.executable, "-c", MAKE_SLOWLY]
    path = {"PYTHONPATH": ":".join(sys.path), "AUTOGRAD_GPU_EMU_CACHE": str(folder)}
    running = [subprocess.Popen(command, env=path, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert sorted(said) == ["", "", "", "made\n"]
    assert [path.name for path in folder.iterdir()] == ["object"]


def test_what_is_kept_is_not_made_again():
    assert cache.kept("name", write("first")).read_text() == "first"
    assert cache.kept("name", write("second")).read_text() == "first"


def test_failure_leaves_nothing_behind(folder):
    with pytest.raises(ZeroDivisionError):
        cache.kept("name", lambda scratch: 1 / 0)
    assert list(folder.iterdir()) == []
    assert cache.kept("name", write("after it")).read_text() == "after it"


def test_who_does_not_wait_is_told_that_it_is_being_made():
    begun, go_on = threading.Event(), threading.Event()

    def make(scratch):
        begun.set()
        assert go_on.wait(60)
        return write("slowly")(scratch)

    maker = threading.Thread(target=cache.kept, args=("name", make))
    maker.start()
    assert begun.wait(60)
    assert cache.kept("name", write("twice"), wait=False) is None
    go_on.set()
    maker.join()
    assert cache.kept("name", write("twice"), wait=False).read_text() == "slowly"
