"""A rank that fails ends all, and the error names it and the collective; checkpoints are whole at every moment."""

import random
import re
import signal
import time

import pytest
import ranks

import autograd_gpu as ag

pytestmark = pytest.mark.cpu
TRAINING = ranks.CHECKS / "training.py"


def test_raising_ends_all_ranks_with_its_error(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import autograd_gpu as ag\n"
        "dist = ag.distributed\n"
        "dist.init_process_group(timeout=20)\n"
        "dist.all_reduce(ag.ones(2))\n"
        "if dist.get_rank() == 1: raise ValueError('no more data')\n"
        "dist.broadcast(ag.ones(3), 1)\n"
    )
    began = time.monotonic()
    status, _, err = ranks.run(2, script)
    assert status != 0
    assert time.monotonic() - began < 20
    assert "rank 1 of 2 has failed, after all_reduce #1 (float32 [2], SUM): ValueError: no more data" in err
    assert ("broadcast #2 (float32 [3], from 1) cannot complete: rank 1 has failed: ValueError: no more data") in err


ENDS = {  # what rank 1 does while rank 0 waits for it: the program, and what is said
    "at once": ("os._exit(5)", r"rank 1 of 2 \(pid \d+\) has died without a word, .* collective was barrier #1"),
    "without a text": ("raise Unprintable", r"rank 1 of 2 has failed, after barrier #1: Unprintable: <exception str"),
    "with work under way": ("dist.all_reduce(ag.ones(50000), async_op=True); sys.exit()", ""),
}  # fmt: skip


@pytest.mark.parametrize("how", ["at once", *(pytest.param(how, marks=pytest.mark.more) for how in list(ENDS)[1:])])
def test_a_rank_that_ends(how, tmp_path):
    doing, said = ENDS[how]
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "import autograd_gpu as ag\n"
        "dist = ag.distributed\n"
        "class Unprintable(Exception):\n"
        "    def __str__(self): raise ValueError\n"
        "dist.init_process_group(timeout=20)\n"
        "dist.barrier()\n"
        f"if dist.get_rank() == 1: {doing}\n"
        "dist.all_reduce(ag.ones(50000))\n"
    )
    status, _, err = ranks.run(2, script)
    assert (status == 0) == (not said)
    assert re.search(said, err), err


@pytest.mark.more
def test_a_device_that_does_not_come_to_an_end_ends_all_ranks(tmp_path):
    """The host may wait for the device, so a thread looks after it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "import autograd_gpu as ag\n"
        "dist = ag.distributed\n"
        "from autograd_gpu.distributed.failure import Call\n"
        "dist.init_process_group()\n"
        "if dist.get_rank() == 0:\n"
        "    call = Call('all_reduce', 3, 'default', [0, 1], 'float32 [5], SUM')\n"
        "    dist.GroupMember.WORLD.watch.follow(lambda: False, call, 0.5)\n"
        "time.sleep(30)\n"
    )
    began = time.monotonic()
    status, _, err = ranks.run(2, script)
    assert status != 0
    assert time.monotonic() - began < 25
    assert re.search(r"on the device, all_reduce #3 \(.*\) did not complete within .* s on rank 0: rank 1 did not", err)


def _ready(process):
    """Waits until both ranks train; returns their process ids, by rank."""
    said = ""
    while said.count("ready") < 2:  # mpiexec may put two lines into one
        line = process.stdout.readline()
        assert line, said
        said += line
    listed = ranks.processes_below(process.pid, str(TRAINING))
    assert len(listed) == 2
    return listed


def _kill(path, seed):
    """Kills a rank at a random moment; checks what is said, that all ends, and the checkpoint.

    Returns whether that rank is named: mpiexec kills the other one at once, which may end first on a busy machine.
    """
    chance = random.Random(seed)
    with ranks.start(2, TRAINING, path) as process:
        victims = _ready(process)
        rank = chance.randrange(2)
        time.sleep(chance.random() * 0.2)
        victims[rank].send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=20)
    assert process.returncode != 0
    named = re.search(r"rank (\d) of 2 \(pid (\d+)\) has died without a word, .* collective was \w+ #\d+ \(.*\)", err)
    assert named, err
    assert int(named[2]) == victims[int(named[1])].pid, err
    saved = ag.load(path)
    assert (saved["weights"] == saved["step"]).all()
    assert saved["last"].item() == saved["step"]
    return int(named[1]) == rank


def test_a_killed_rank_is_named_and_leaves_a_whole_checkpoint(tmp_path):
    assert any(_kill(tmp_path / "state.safetensors", 1) for _ in range(2))


@pytest.mark.more
@pytest.mark.parametrize("first", range(0, 50, 10))
def test_killed_at_fifty_moments(first, tmp_path):
    assert sum(_kill(tmp_path / "state.safetensors", seed) for seed in range(first, first + 10)) >= 8


def test_interrupting_ends_all_ranks(tmp_path):
    with ranks.start(2, TRAINING, tmp_path / "state.safetensors") as process:
        _ready(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    assert "has failed, after" in err
