"""Seeds, generators and the random factories."""

import concurrent.futures
import contextlib
import copy
import math
import pickle
import threading

import numpy as np
import pytest
from effort import fewer

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend.arrays.dtypes import bfloat16
from autograd_gpu.random.replay import GeneratorReplay, GeneratorSnapshot


def test_manual_seed_repeats(device):
    ag.manual_seed(3)
    first = [ag.rand(5, device=device), ag.randn(5, device=device), ag.randperm(5, device=device)]
    assert ag.manual_seed(3).initial_seed() == 3
    again = [ag.rand(5, device=device), ag.randn(5, device=device), ag.randperm(5, device=device)]
    for a, b in zip(first, again, strict=True):
        assert a.tolist() == b.tolist()
    assert ag.rand(5, device=device).tolist() != first[0].tolist()


def test_generator_state(device):
    generator = ag.Generator(device).manual_seed(1)
    state = generator.get_state()
    a = ag.rand(4, generator=generator, device=device)
    generator.set_state(state)
    assert ag.rand(4, generator=generator).tolist() == a.tolist()
    generator.seed()
    assert generator.initial_seed() != 1


def unpickled(generator):
    return pickle.loads(pickle.dumps(generator))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, unpickled, ag.Generator.clone_state])
def test_copies_of_a_generator_go_on_by_themselves(duplicate, device):
    generator = ag.Generator(device).manual_seed(1)
    ag.rand(3, generator=generator)
    twin = duplicate(generator)
    assert (twin.device, twin.initial_seed()) == (generator.device, 1)
    expected = ag.rand(3, generator=generator).tolist()
    assert ag.rand(3, generator=twin).tolist() == expected
    assert ag.rand(3, generator=twin).tolist() != expected


def test_seeds_of_other_kinds():
    assert ag.Generator().manual_seed(np.int64(7)).initial_seed() == 7
    assert ag.Generator().manual_seed(7.0).initial_seed() == 7


def test_negative_and_too_large_seeds():
    assert ag.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(RuntimeError, match="Overflow when unpacking long"):
        ag.manual_seed(2**64)


def test_ranges(device):
    ag.manual_seed(0)
    u, z = ag.rand(10_000, device=device), ag.randn(10_000, device=device)
    assert bool((u >= 0).all())
    assert bool((u < 1).all())
    assert abs(u.mean().item() - 0.5) < 0.02
    assert abs(z.mean().item()) < 0.05
    assert abs(z.std().item() - 1) < 0.05
    k = ag.randint(-2, 3, (1000,), device=device)
    assert sorted(set(k.tolist())) == [-2, -1, 0, 1, 2]
    assert sorted(ag.randperm(20, device=device).tolist()) == list(range(20))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_and_shapes(dtype, device):
    expected = bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    for size in ((2, 3), ((2, 3),), ((),), (0,)):
        x = ag.randn(*size, dtype=dtype, device=device, requires_grad=True)
        assert x.dtype == expected
        assert x.requires_grad
        assert x.shape == (size if isinstance(size[0], int) else size[0])
    assert ag.randint(4, (2,), dtype=dtype, device=device).dtype == expected


def test_errors(device):
    with pytest.raises(RuntimeError, match="expects 'from' to be less than 'to'"):
        ag.randint(3, 3, (2,), device=device)
    with pytest.raises(RuntimeError, match="random numbers of dtype int64"):
        ag.rand(2, dtype="int64", device=device)
    with pytest.raises(RuntimeError, match="Expected a 'cuda:1' generator but found one on 'cpu'"):
        ag.rand(2, generator=ag.Generator(), device="cuda:1")
    for call in (lambda: ag.randn(2, -1), lambda: ag.randperm(-1), lambda: ag.randint(3, (-1,))):
        with pytest.raises(RuntimeError, match="Trying to create tensor with negative dimension -1"):
            call()


def test_threads_share_one_stream():
    ag.manual_seed(0)
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(ag.rand(1000).numpy(force=True))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ag.manual_seed(0)
    expected = [ag.rand(1000).numpy(force=True) for _ in range(8)]
    assert {a.tobytes() for a in drawn} == {a.tobytes() for a in expected}


# ---- distributions -----------------------------------------------------------------------------------

N = 20_000
FILLS = {  # in-place method and arguments -> a statistic, and what it should be
    "normal_": ((1.0, 2.0), lambda a: [a.mean(), a.std()], [1, 2]),
    "uniform_": ((-1.0, 3.0), lambda a: [a.mean(), a.std(), a.min() >= -1, a.max() <= 3], [1, 4 / 12**0.5, 1, 1]),
    "exponential_": ((2.0,), lambda a: [a.mean(), a.std(), a.min() >= 0], [0.5, 0.5, 1]),
    "log_normal_": ((0.5, 0.25), lambda a: [np.log(a).mean(), np.log(a).std()], [0.5, 0.25]),
    "cauchy_": ((1.0, 0.5), lambda a: np.quantile(a, [0.25, 0.5, 0.75]), [0.5, 1, 1.5]),
    "geometric_": ((0.4,), lambda a: [a.mean(), a.std(), a.min(), (a % 1).max()], [2.5, 0.6**0.5 / 0.4, 1, 0]),
    "bernoulli_": ((0.3,), lambda a: [a.mean(), (a * (1 - a)).max()], [0.3, 0]),
    "random_": ((2, 7), lambda a: [a.mean(), a.min(), a.max(), (a % 1).max()], [4, 2, 6, 0]),
}


@pytest.mark.parametrize("name", sorted(FILLS))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_in_place(name, dtype, device):
    """Of the right distribution, the same from the same seed, and noticed by what saved the tensor."""
    arguments, statistic, expected = FILLS[name]
    x = ag.zeros(N, dtype=dtype, device=device)
    ag.manual_seed(1)
    assert getattr(x, name)(*arguments) is x
    assert x._version == 1
    array = x.numpy(force=True).astype(np.float64)
    np.testing.assert_allclose(np.asarray(statistic(array), float), expected, rtol=0.05, atol=0.02)
    generator = ag.Generator(device).manual_seed(1)
    again = getattr(ag.zeros(N, dtype=dtype, device=device), name)(*arguments, generator=generator)
    assert again.tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool", "float16", "float32"])
def test_random_without_bounds_fills_the_dtype(dtype, device):
    x = ag.zeros(N, dtype=dtype, device=device).random_().numpy(force=True).astype(np.float64)
    highest = {"int8": 127, "uint8": 255, "int64": 2**63 - 1, "bool": 1, "float16": 2048, "float32": 2**24}[dtype]
    assert x.min() >= 0
    assert 0.99 * highest <= x.max() <= highest
    assert ag.zeros(N, device=device).random_(3).max().item() == 2


def test_in_place_on_strided_integer_and_bool_tensors(device):
    x = ag.zeros(4, 6, dtype=ag.int64, device=device)
    x[::2, 1::2].geometric_(0.5)
    x[1, :3].bernoulli_(ag.tensor([1.0, 0.0, 1.0], device=device))
    assert (x != 0).tolist()[1] == [True, False, True, False, False, False]
    assert (x[::2] != 0).tolist() == [[False, True] * 3] * 2
    assert ag.zeros(3, dtype=bool, device=device).bernoulli_(1.0).tolist() == [True] * 3


def test_sampling_of_tensors(device):
    ag.manual_seed(2)
    p = ag.full((N,), 0.25, device=device)
    assert abs(ag.bernoulli(p).mean().item() - 0.25) < 0.02
    assert abs(p.bernoulli(0.75).mean().item() - 0.75) < 0.02
    assert abs(ag.poisson(p * 8).mean().item() - 2) < 0.05
    mean = ag.tensor([[0.0], [10.0]], device=device)
    z = ag.normal(mean, ag.full((N,), 2.0, device=device))
    assert z.shape == (2, N)
    np.testing.assert_allclose(z.mean(1).numpy(force=True), [0, 10], atol=0.1)
    np.testing.assert_allclose(z.std(1).numpy(force=True), [2, 2], atol=0.1)
    assert ag.normal(1.0, 0.0, (2, 2), device=device, dtype="float64").tolist() == [[1, 1], [1, 1]]
    assert ag.bernoulli(ag.ones(3, dtype=ag.int64, device=device), 0.5).dtype == np.int64


def test_binomial(device):
    """Counts are rounded down, probabilities beyond the ends count as these; NaN gives NaN, and nothing a gradient."""
    ag.manual_seed(2)
    counts, p = ag.tensor([[5.0], [1e4]], device=device), ag.full((N,), 0.25, device=device, requires_grad=True)
    drawn = ag.binomial(counts, p)
    assert drawn.shape == (2, N)
    assert not drawn.requires_grad
    np.testing.assert_allclose(drawn.mean(1).numpy(force=True), [1.25, 2500], rtol=0.05)
    np.testing.assert_allclose(drawn.var(1).numpy(force=True), [5 * 3 / 16, 1e4 * 3 / 16], rtol=0.05)
    counts = ag.tensor([2.9, -1.0, 3.0, 3.0, np.nan, 3.0, np.inf], device=device)
    result = ag.binomial(counts, ag.tensor([1.0, 0.5, 1.5, -0.5, 0.5, np.nan, 0.5], device=device))
    np.testing.assert_array_equal(result.tolist(), [2, 0, 3, 0, np.nan, np.nan, np.nan])


def test_one_number_is_an_array(device):
    """As of every other shape; NumPy makes scalars of 0-d arrays where it computes with them."""
    x = ag.tensor(0.5, device=device)
    assert backend.is_array(ag.random.bernoulli_mask((), 0.5, x.device))
    assert backend.is_array(ag.bernoulli(x, 0.5)._array)
    assert ag.bernoulli(x, 0.5).zero_().item() == 0


def test_gradients_of_samples_are_zero(device):
    x = ag.full((3,), 0.5, device=device, requires_grad=True)
    for y in (ag.bernoulli(x), ag.poisson(x), ag.normal(x, x)):
        assert y.requires_grad
        (g,) = ag.autograd.grad(y.sum(), x)
        assert g.tolist() == [0, 0, 0]


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement, device):
    ag.manual_seed(3)
    draws = fewer(3000)
    weights = ag.tensor([[1.0, 0.0, 3.0, 0.0], [0.0, 2.0, 2.0, 4.0]], device=device).repeat(draws, 1)
    first = ag.multinomial(weights, 2, replacement).numpy(force=True).reshape(draws, 2, 2)
    assert first.dtype == np.int64
    shares = [np.bincount(first[:, row, 0], minlength=4) / draws for row in (0, 1)]
    expected = [[0.25, 0, 0.75, 0], [0, 0.25, 0.25, 0.5]]
    np.testing.assert_allclose(shares, expected, atol=1.6 / draws**0.5)
    twice = (first[..., 0] == first[..., 1]).any()
    assert twice if replacement else not twice
    if not replacement:  # the second, of what the first left
        left = first[first[:, 1, 0] == 3, 1, 1]
        shares = np.bincount(left, minlength=4) / len(left)
        np.testing.assert_allclose(shares, [0, 0.5, 0.5, 0], atol=2 / len(left) ** 0.5)


def test_multinomial_of_many_rows_and_of_one(device):
    """Every row's draws stay in its row, whatever its number, and a weight of zero is never drawn."""
    weights = ag.zeros(5000, 3, device=device)
    weights[:, 1] = 1e-30
    assert (ag.multinomial(weights, 4, replacement=True) == 1).all().item()
    assert (ag.multinomial(weights, 1) == 1).all().item()
    one = ag.multinomial(ag.tensor([0.0, 1.0, 0.0], device=device), 3)
    assert one.shape == (3,)
    assert one[0].item() == 1
    assert sorted(one.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("dtype", [ag.float32, ag.float16, ag.bfloat16])
@pytest.mark.parametrize("rows", [1, 40])
def test_weights_of_multinomial_are_checked_in_every_row(dtype, rows, device):
    weights = ag.ones(rows, 30, device=device, dtype=dtype)
    assert ag.multinomial(weights, 2).shape == (rows, 2)
    for value, message in ((math.nan, "inf"), (math.inf, "inf"), (-1.0, "inf"), (0.0, "sum of probabilities <= 0")):
        wrong = weights.clone()
        wrong[-1] = value if value == 0 else wrong[-1]
        wrong[-1, 3] = value
        with pytest.raises(RuntimeError, match=message):
            ag.multinomial(wrong, 2)
    assert ag.multinomial(ag.ones(0, 3, device=device, dtype=dtype), 2).shape == (0, 2)
    with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
        ag.multinomial(ag.ones(3, 0, device=device, dtype=dtype), 2, replacement=True)


@pytest.mark.emulated
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_reads_once(replacement, launches):
    weights = ag.rand(40, 30)
    with launches() as found:
        ag.multinomial(weights, 5, replacement)
    assert found.transfers == 1


def test_dropout_repeats_from_the_seed(device):
    x = ag.ones(100, device=device)
    ag.manual_seed(4)
    first = ag.dropout(x).tolist()
    assert ag.dropout(x).tolist() != first
    ag.manual_seed(4)
    assert ag.dropout(x).tolist() == first


def test_fork_rng(device):
    ag.manual_seed(5)
    ag.rand(3, device=device)
    with ag.random.fork_rng():
        inside = ag.rand(3, device=device).tolist()
        ag.manual_seed(6)
        ag.rand(3)
    assert ag.initial_seed() == 5
    assert ag.rand(3, device=device).tolist() == inside
    with contextlib.suppress(ValueError), ag.random.fork_rng():
        inside = ag.rand(3, device=device).tolist()
        raise ValueError("stop")
    assert ag.rand(3, device=device).tolist() == inside
    with ag.random.fork_rng(enabled=False):
        inside = ag.rand(3, device=device).tolist()
    assert ag.rand(3, device=device).tolist() != inside


def test_states_of_the_default_generators(device):
    state = ag.get_rng_state(device)
    first = ag.rand(3, device=device).tolist()
    seed = ag.initial_seed()
    ag.manual_seed(seed + 1)
    ag.set_rng_state(state, device)
    assert ag.rand(3, device=device).tolist() == first
    assert ag.random.default_generator(device).initial_seed() == seed  # the state has the seed, as PyTorch's
    assert (state.dtype, state.device.type, state.ndim) == (ag.uint8, "cpu", 1)
    assert ag.seed() == ag.initial_seed()


WRONG = [
    (lambda x: x.normal_(0, -1), "normal expects std >= 0.0, but found std -1"),
    (lambda x: x.uniform_(1, 0), r"\[from, to\) range, but found from=1 > to=0"),
    (lambda x: x.bernoulli_(2), r"bernoulli_ expects p to be in \[0, 1\], but got p=2"),
    (lambda x: x.exponential_(0), "exponential_ expects lambda > 0.0, but found lambda=0"),
    (lambda x: x.log_normal_(0, 0), "log_normal_ expects std > 0.0, but found std=0"),
    (lambda x: x.cauchy_(0, 0), "cauchy_ expects sigma > 0.0, but found sigma=0"),
    (lambda x: x.geometric_(1), r"geometric_ expects p to be in \(0, 1\), but got p=1"),
    (lambda x: x.random_(3, 3), "but got from=3 >= to=3"),
    (lambda x: x.to(ag.int8).random_(0, 300), "to - 1 is out of bounds for int8"),
    (lambda x: x.to(ag.int64).normal_(), "normal_ is not implemented for int64"),
    (lambda x: x.requires_grad_().normal_(), "a leaf Variable that requires grad .* wrap normal_ in ag.no_grad"),
    (lambda x: x.expand((2, 3)).uniform_(), "more than one element of the written-to tensor refers to a single memory"),
    (lambda x: ag.bernoulli(x, 1.5), r"bernoulli expects p to be in \[0, 1\], but got p=1.5"),
    (lambda x: ag.poisson(x.to(ag.int64)), "poisson is not implemented for int64"),
    (lambda x: ag.binomial(x, x.double()), "float64"),
    (lambda x: ag.normal(1.0, -1.0, (2,)), "normal expects std >= 0.0, but found std -1"),
    (lambda x: ag.multinomial(x, 4), "cannot sample n_sample > prob_dist.size"),
    (lambda x: ag.multinomial(x, 0), "cannot sample n_sample <= 0 samples"),
    (lambda x: ag.multinomial(-x, 1), "contains either `inf`, `nan` or element < 0"),
    (lambda x: ag.multinomial(x * 0, 1), "sum of probabilities <= 0"),
    (lambda x: ag.multinomial(x[None, None], 1), "prob_dist must be 1 or 2 dim"),
    (lambda x: ag.multinomial(x.to(ag.int64), 1), "only supports floating-point dtypes for input, got: int64"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_distribution_errors(call, message, device):
    with pytest.raises(RuntimeError, match=message):
        call(ag.ones(3, device=device))


def test_normal_wants_a_size_or_a_tensor(device):
    with pytest.raises(TypeError, match="needs a size"):
        ag.normal(1.0, 2.0)
    with pytest.raises(TypeError, match="a tensor brings its own"):
        ag.normal(ag.ones(2, device=device), 2.0, (2,))
    with pytest.raises(TypeError, match="float8_e4m3fn is a storage dtype"):
        ag.ones(2, device=device).to(ag.float8_e4m3fn).normal_()


@pytest.mark.parametrize("name", ["rand_like", "randn_like", "randint_like"])
def test_numbers_like_those_of_a_tensor(name, device):
    x, bounds = ag.zeros(40, 50, dtype=ag.float64, device=device), (2, 5) if name == "randint_like" else ()
    drawn = getattr(ag, name)(x, *bounds)
    assert (drawn.shape, drawn.dtype, drawn.device) == (x.shape, x.dtype, x.device)
    low, high = {"rand_like": (0, 1), "randn_like": (-6, 6), "randint_like": (2, 5)}[name]
    assert low <= drawn.min().item() < drawn.max().item() < high
    assert getattr(ag, name)(x, *bounds, dtype=ag.float32, requires_grad=True).requires_grad


def test_blocks_whose_numbers_come_again(device):
    own = ag.Generator(device)

    def draw():
        drawn = [ag.rand(2), ag.rand(2, generator=own)]
        return [t.tolist() for t in drawn]

    def states():
        return ag.get_rng_state(device).tolist(), own.get_state().tolist()

    outer, inner, deeper = GeneratorSnapshot(), GeneratorSnapshot(), GeneratorSnapshot()
    with outer:
        before = draw()
        with inner:
            first = draw()
        assert set(inner.noted) == set(outer.noted) == {own, ag.random.default_generator(device)}
        after = draw()
    where = states()
    with GeneratorReplay(inner):
        assert draw() == first
        assert own.initial_seed() == inner.noted[own][0]
    with GeneratorReplay(outer):
        assert draw() == before
        with deeper:
            assert draw() == first
        with GeneratorReplay(deeper):  # noted in a repeat, repeated in one
            assert draw() == first
        assert draw() == after
        ag.manual_seed(3)
        own.manual_seed(4)
    assert states() == where
    with GeneratorReplay(GeneratorSnapshot()):  # which noted nothing: the numbers go on
        further = draw()
    assert states() == where
    assert draw() == further


def test_a_generator_first_used_in_a_block_repeats_from_its_seed(device):
    own = ag.Generator(device).manual_seed(5)
    snapshot = GeneratorSnapshot()
    with snapshot:
        first = ag.rand(3, generator=own).tolist()
        own.manual_seed(6)
    with GeneratorReplay(snapshot):
        assert ag.rand(3, generator=own).tolist() == first
        assert own.initial_seed() == 5
    assert own.initial_seed() == 6


def test_a_repeat_is_of_one_thread(device):
    snapshot = GeneratorSnapshot()
    with snapshot:
        first = ag.rand(2, device=device).tolist()
    with GeneratorReplay(snapshot), concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: ag.rand(2, device=device).tolist()).result() != first
        assert ag.rand(2, device=device).tolist() == first


def test_an_in_place_draw_is_recorded_as_other_writes_are(device):
    """In inference mode it is not, and no more where grad is on inside it."""
    x = ag.ones(3, requires_grad=True)
    y, z = x * 2, x * 2
    y.normal_()
    with ag.inference_mode(), ag.enable_grad():
        z.normal_()
    assert y.grad_fn.name() != z.grad_fn.name() == "MulBackward0"
    assert ag.autograd.grad(y.sum() + z.sum(), x)[0].tolist() == [2, 2, 2]


def test_bounds_of_randint_like():
    r = ag.randint_like(ag.zeros(50, dtype=ag.int32), 2, 5)
    assert r.dtype == ag.int32
    assert set(r.tolist()) == {2, 3, 4}


def test_normal_of_tensors():
    for keywords in ({"dtype": ag.float64}, {"requires_grad": True}, {"device": "cpu"}, {"size": (2,)}):
        with pytest.raises(TypeError, match="a tensor brings its own"):
            ag.normal(ag.ones(2), 0.0, **keywords)
    assert ag.normal(0.0, 1.0, 3).shape == (3,)
    with pytest.raises(RuntimeError, match=r"std >= 0\.0"):
        ag.random.normal((2,), std=-1.0)


@pytest.mark.parametrize("dtype", [ag.float16, ag.bfloat16])
def test_uniform_numbers_in_half_types_are_below_1(dtype):
    drawn = ag.rand(100_000, dtype=dtype, generator=ag.Generator(ag.zeros(1).device).manual_seed(0))
    assert 0 <= drawn.float().min().item() < 0.001
    assert 0.99 < drawn.float().max().item() < 1


def test_randint_like_takes_high():
    x = ag.zeros(20)
    assert set(ag.randint_like(x, high=2).tolist()) == {0.0, 1.0}
    assert set(ag.randint_like(x, low=3, high=4).tolist()) == {3.0}
    with pytest.raises(TypeError, match=r"randint_like\(input, high\)"):
        ag.randint_like(x)
