"""How values come and go: NumPy's protocols, DLPack, operands of other libraries."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import autograd_gpu as ag


class Exporter:
    """What another library sees of a tensor."""

    def __init__(self, tensor):
        self.export, self.device = tensor.__dlpack__, tensor.__dlpack_device__()

    def __dlpack__(self, **kwargs):
        return self.export(**kwargs)

    def __dlpack_device__(self):
        return self.device


def address(tensor):
    array = tensor.array
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


# In a process of its own: where JAX has run, it warns of every fork.
WITH_JAX = """
import jax.numpy as jnp
import numpy as np
import pytest
import autograd_gpu as ag

theirs = jnp.arange(3.0)
ours = ag.from_dlpack(theirs)
assert ours.array.ctypes.data == theirs.unsafe_buffer_pointer()
with pytest.raises(RuntimeError, match="read-only"):
    ours.add_(1)
memory = np.zeros(64 + 64, np.uint8)
start = -memory.ctypes.data % 64
aligned = ag.as_tensor(memory[start : start + 64].view(np.float32))
assert jnp.from_dlpack(aligned).unsafe_buffer_pointer() == aligned.array.ctypes.data
with pytest.raises(BufferError, match=r"read-only.*export t.clone"):
    jnp.from_dlpack(ours)
"""


class TestDLPack:
    def test_negative_strides_are_copied(self, device):
        t = ag.arange(6, device=device).reshape(2, 3)[::-1, 1:]
        back = ag.from_dlpack(Exporter(t))
        assert back.tolist() == [[4, 5], [1, 2]]
        with pytest.raises(BufferError, match="negative strides"):
            t.__dlpack__(copy=False)
        if device == "cpu":
            torch = pytest.importorskip("torch")
            assert torch.from_dlpack(t).tolist() == [[4, 5], [1, 2]]

    @pytest.mark.parametrize(("dtype", "integers"), [("bfloat16", "int16"), ("float8_e5m2", "uint8")])
    def test_dtypes_that_numpy_does_not_know_go_as_integers(self, dtype, integers, device):
        t = ag.ones(2, device=device).to(getattr(ag, dtype))
        with pytest.raises(BufferError, match=rf"{dtype} cannot be exported .*; export t.view\(ag.{integers}\)"):
            t.__dlpack__()
        back = ag.from_dlpack(Exporter(t.view(getattr(ag, integers)))).view(t.dtype)
        assert back.tolist() == [1, 1]
        assert address(back) == address(t)

    def test_copies_on_request(self, device):
        t = ag.arange(3, device=device)

        class Copied(Exporter):
            def __dlpack__(self, **kwargs):
                return self.export(**{**kwargs, "copy": True})

        ag.from_dlpack(Copied(t)).add_(1)
        assert t.tolist() == [0, 1, 2]
        ag.from_dlpack(Exporter(t)).add_(1)
        assert t.tolist() == [1, 2, 3]

    def test_what_requires_grad_is_not_exported(self, device):
        x = ag.ones(2, device=device, requires_grad=True)
        with pytest.raises(BufferError, match=r"require gradient, use tensor.detach\(\)"):
            ag.from_dlpack(Exporter(x))
        with pytest.raises(BufferError, match="require gradient"):
            (x * 2).__dlpack__()
        with pytest.raises(TypeError, match=r"expected an array of a library with DLPack, got list; ag.as_tensor"):
            ag.from_dlpack([1.0])

    @pytest.mark.cpu
    def test_read_only_memory_stays_so(self):
        a = np.arange(3.0)
        assert np.shares_memory(ag.from_dlpack(a).array, a)
        a.flags.writeable = False
        t = ag.from_dlpack(Exporter(ag.from_dlpack(a)))
        assert np.shares_memory(t.array, a)
        with pytest.raises(RuntimeError, match="read-only cannot be written to"):
            t.add_(1)
        with pytest.raises(BufferError, match=r"read-only, which a consumer .* could not know; export t.clone\(\)"):
            t.__dlpack__()
        assert t.clone().__dlpack__() is not None
        for wrong in ({"stream": 1}, {"dl_device": (2, 0)}):
            with pytest.raises(BufferError, match="a CPU tensor"):
                ag.ones(2).__dlpack__(**wrong)

    @pytest.mark.cpu
    @pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
    def test_pytorch_shares_memory_both_ways(self, shape):
        torch = pytest.importorskip("torch")
        theirs = torch.zeros(shape)
        ours = ag.from_dlpack(theirs)
        ours += 2
        assert theirs.tolist() == ours.tolist()
        again = torch.from_dlpack(ours.t() if ours.ndim == 2 else ours)
        again += 1
        assert ours.tolist() == again.t().tolist()
        assert (ours.numel() == 0) or again.data_ptr() == theirs.data_ptr()
        del theirs, again
        assert (ours == 3).all()  # the memory is kept

    @pytest.mark.cpu
    def test_pytorchs_layouts_and_refusals(self):
        torch = pytest.importorskip("torch")
        theirs = torch.arange(12.0).reshape(3, 4)
        ours = ag.from_dlpack(theirs[1:, ::2].t())
        ours.mul_(10)
        assert theirs.tolist() == [[0, 1, 2, 3], [40, 5, 60, 7], [80, 9, 100, 11]]
        assert torch.from_dlpack(ag.ones(1).expand(3)).stride() == (0,)
        with pytest.raises(BufferError, match="require gradient"):
            ag.from_dlpack(torch.ones(2, requires_grad=True))
        with pytest.raises(TypeError, match=r"no DLPack memory of dtype torch.bfloat16; export it as integers"):
            ag.from_dlpack(torch.ones(2, dtype=torch.bfloat16))
        half = torch.ones(2, dtype=torch.bfloat16)
        assert ag.from_dlpack(half.view(torch.int16)).view(ag.bfloat16).tolist() == [1, 1]
        with pytest.raises(TypeError, match="complex64"):
            ag.from_dlpack(torch.ones(2, dtype=torch.complex64))

    @pytest.mark.cpu
    def test_jax_shares_memory_both_ways(self):
        """JAX takes memory without a copy where it is aligned to 64 bytes, and its own cannot be written."""
        pytest.importorskip("jax")
        subprocess.run([sys.executable, "-c", WITH_JAX], check=True)


@pytest.mark.cuda
class TestStreams:
    """`__dlpack__(stream=)` makes the consumer's stream wait for the producer's, and from_dlpack asks for its own."""

    def test_the_consumer_waits(self, cp):
        producer, consumer = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
        x = ag.ones(1 << 16, device="cuda")
        cp.cuda.Device().synchronize()
        with producer:
            y = x * 2
            y.__dlpack__(stream=consumer.ptr, max_version=(1, 1))
        with consumer:
            assert (y + 1).sum().item() == 3 << 16

    @pytest.mark.emulated
    def test_without_a_stream_nobody_waits(self, cp):
        """The emulator notices what the test above rests on."""
        producer, consumer = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
        x = ag.ones(16, device="cuda")
        cp.cuda.Device().synchronize()
        with producer:
            y = x * 2
            y.__dlpack__(stream=-1)
        with consumer, pytest.raises(RuntimeError, match=r"race|order"):
            (y + 1).sum().item()
        cp.cuda.Device().synchronize()

    def test_from_dlpack_waits_for_the_exporter(self, cp):
        theirs, ours = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
        source = ag.ones(1 << 16, device="cuda")
        cp.cuda.Device().synchronize()
        with theirs:
            source.mul_(3)

        class Foreign(Exporter):
            asked = None

            def __dlpack__(self, **kwargs):
                self.asked = kwargs["stream"]
                with theirs:
                    return self.export(**kwargs)

        foreign = Foreign(source)
        with ours:
            t = ag.from_dlpack(foreign)
            assert t.sum().item() == 3 << 16
        assert foreign.asked == ours.ptr
        assert t.array.data.ptr == source.array.data.ptr

    def test_cupy_shares_memory_both_ways(self, cp):
        array = cp.arange(3.0, dtype="float32")
        t = ag.from_dlpack(array)
        t += 1
        assert cp.from_dlpack(t.detach()).get().tolist() == array.get().tolist() == [1, 2, 3]
        assert cp.from_dlpack(t).data.ptr == array.data.ptr
        with pytest.raises(BufferError, match="require gradient"):
            cp.from_dlpack(t.requires_grad_())
        with pytest.raises(ValueError, match="valid stream"):
            t.detach().__dlpack__(stream=0)


class TestNumPy:
    @pytest.mark.cpu
    def test_arrays_are_constants(self):
        x = ag.ones(3, dtype=ag.float64, requires_grad=True)
        a = np.arange(3.0)
        y = x * a
        assert y.grad_fn.saved_by_name()[0][1].tensor.array is a
        z = a * x
        assert isinstance(z, ag.Tensor)
        assert z.requires_grad
        (g,) = ag.autograd.grad(z.sum(), x)
        assert g.tolist() == a.tolist()
        assert isinstance(a + x, ag.Tensor)
        assert isinstance(a @ x, ag.Tensor)
        assert isinstance(a > x, ag.Tensor)

    def test_ufuncs_record(self):
        x = ag.ones(3, requires_grad=True)
        assert np.sin(x).grad_fn.name() == "SinBackward0"
        assert np.multiply(x, 2.0).grad_fn.name() == "MulBackward0"
        assert np.float64(2.0) * x is not None
        with pytest.raises(TypeError, match="not defined for tensors"):
            np.spacing(x)
        with pytest.raises(TypeError, match="reduce"):
            np.add.reduce(x)

    @pytest.mark.cpu
    def test_array_protocol(self):
        assert np.asarray(ag.ones(2)).tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="detach"):
            np.asarray(ag.ones(2, requires_grad=True))
        with pytest.raises(RuntimeError, match="detach"):
            ag.ones(2, requires_grad=True).numpy()

    @pytest.mark.cpu
    def test_cupys_functions_record_or_refuse(self):
        """CuPy asks no protocol: what calls methods of its argument records, the rest refuses (docs/interop.md)."""
        cp = pytest.importorskip("cupy")
        x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        for call in (lambda: cp.mean(x, axis=0, keepdims=True), lambda: cp.clip(x, 2, 3), lambda: cp.linalg.norm(x),
                     lambda: cp.swapaxes(x, 0, 1), lambda: cp.diagonal(x), lambda: cp.flip(x, 0)):  # fmt: skip
            assert call().requires_grad
        for name in ("sum", "prod", "max", "min", "var", "std", "argmax", "argsort", "ravel", "trace", "cumsum"):
            with pytest.raises(TypeError):
                getattr(cp, name)(x)
        for name in ("any", "all", "nonzero"):
            with pytest.raises(TypeError, match=r"must be a cupy\.ndarray"):
                getattr(cp, name)(x)

    def test_foreign_operand(self):
        class Other:
            def __rmul__(self, other):
                return "mine"

        assert ag.ones(2) * Other() == "mine"
        with pytest.raises(TypeError):
            ag.ones(2) * "text"
        with pytest.raises(TypeError, match="must be Tensor, not str"):
            ag.mul(ag.ones(2), "text")


@pytest.mark.parametrize("name", ["hessian", "laplacian", "jacfwd", "jacrev", "grad", "linearize"])
def test_values_do_not_leave_a_transform_unseen(name):
    """They would be constants, and the derivative zero."""
    x = ag.tensor([1.0, 2.0], device="cpu")
    transform = getattr(ag.func, name) if name != "linearize" else lambda f: lambda x: ag.func.linearize(f, x)[1](x)
    for leave in (lambda t: t.numpy(), np.asarray, np.from_dlpack):
        with pytest.raises((RuntimeError, BufferError), match=r"Can't (call numpy|export).*detach"):
            transform(lambda x, leave=leave: (ag.as_tensor(leave(x * x), device="cpu") ** 3).sum())(x)
        result = transform(lambda x, leave=leave: (x * ag.as_tensor(leave(x.detach()), device="cpu")).sum())(x)
        assert result is not None


def test_a_function_reads_arrays_in_a_transform():
    class Cube(ag.autograd.Function):
        @staticmethod
        def forward(x):
            return ag.as_tensor(x.numpy() ** 3, device="cpu")

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

        @staticmethod
        def jvp(ctx, t):
            return 3 * ctx.saved_tensors[0] ** 2 * t

    x = ag.tensor([1.0, 2.0], device="cpu")
    assert ag.func.hessian(lambda x: Cube.apply(x).sum(), method="nested")(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
