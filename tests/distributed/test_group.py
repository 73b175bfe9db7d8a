"""Groups of one process, and the arguments of init_process_group; more ranks are in test_on_ranks.py."""

import pytest

import autograd_gpu as ag
from autograd_gpu import distributed as dist

pytestmark = pytest.mark.cpu


@pytest.fixture
def alone():
    dist.init_process_group()
    yield
    dist.destroy_process_group()


def test_one_process_needs_no_mpi(alone):
    x, out = ag.arange(3.0), ag.zeros(1, 3)
    dist.all_reduce(x)
    dist.all_gather_into_tensor(out, x)
    dist.broadcast(x, 0)
    dist.barrier()
    assert out.tolist() == [[0.0, 1.0, 2.0]]
    assert (dist.get_rank(), dist.get_world_size(), dist.is_initialized()) == (0, 1, True)
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group()


def test_a_group_is_needed():
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="call init_process_group"):
        dist.all_reduce(ag.ones(2))


@pytest.mark.parametrize(("options", "words"), [
    ({"backend": "tcp"}, "must be one of mpi, nccl"),
    ({"timeout": -1.0}, "must be positive"),
    ({"world_size": 2, "rank": 0}, "mpiexec -n N"),
])  # fmt: skip
def test_arguments_of_init(options, words):
    with pytest.raises(ValueError, match=words):
        dist.init_process_group(**options)
    assert not dist.is_initialized()


def test_a_program_for_torchrun_says_how_to_start_it(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="mpiexec -n 2 python"):
        dist.init_process_group()
