"""Anomaly mode: where the failing node was made, where its parent was, and NaN that names the output."""

from __future__ import annotations

import threading
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, detect_anomaly, grad, set_detect_anomaly


@pytest.fixture(autouse=True)
def _numpy_is_quiet():
    with np.errstate(all="ignore"):
        yield


def leaf(*values):
    return ag.tensor(values or (1.0, 2.0, 3.0), dtype=ag.float64, requires_grad=True)


class Failing(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ValueError("in backward")


def make_root(x):
    return x.sqrt()  # the forward line that notes show


def make_failing(x):
    return Failing.apply(x)


def notes_of(error):
    return "\n".join(getattr(error, "__notes__", []))


def failure(call, kind=RuntimeError):
    with pytest.raises(kind) as caught:
        call()
    return caught.value


class TestForwardTraceback:
    def test_of_an_op(self):
        with set_detect_anomaly(True):
            y = make_root(leaf(-1.0))
            error = failure(y.backward)
        assert str(error) == "Function 'SqrtBackward0' returned nan values in its 0th output."
        note = notes_of(error)
        assert note.startswith("Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n")
        assert note.rstrip().endswith("return x.sqrt()  # the forward line that notes show")  # none of the library's
        assert "test_of_an_op" in note
        assert note in "".join(traceback.format_exception(error))

    def test_of_a_package_beside_the_library(self):
        """Whose path begins as the library's does."""
        scope = {}
        exec(compile("def beside(x):\n    return x.sqrt()", f"{Path(ag.__file__).parent}_demo/model.py", "exec"), scope)
        with set_detect_anomaly(True):
            error = failure(scope["beside"](leaf(-1.0)).backward)
        assert "_demo/model.py" in notes_of(error)

    def test_of_a_function(self):
        with set_detect_anomaly(True):
            y = make_failing(leaf())
            error = failure(lambda: y.sum().backward(), ValueError)
        assert str(error) == "in backward"
        assert notes_of(error).startswith("Error detected in FailingBackward. Traceback of forward call that caused")
        assert notes_of(error).rstrip().endswith("return Failing.apply(x)")

    @pytest.mark.parametrize("call", [
        lambda x: x * 2, lambda x: 2 - x, lambda x: x + ag.ones(3), lambda x: x.split(1)[0], lambda x: ag.cat([x, x]),
        lambda x: x[1:], lambda x: x.to(ag.float16) * 2, lambda x: ag.nn.functional.softmax(x, 0),
        lambda x: ag.nn.functional.layer_norm(x, (3,)), lambda x: x.view(3, 1), make_failing,
    ])
    def test_every_way_to_make_a_node(self, call):
        with set_detect_anomaly(True):
            node = call(leaf()).grad_fn
            todo = [node]
            while todo:
                node = todo.pop()
                if node.name() != "AccumulateGrad":
                    assert "test_every_way_to_make_a_node" in "".join(node.metadata["traceback_"])
                    assert "parent_" not in node.metadata
                    todo += [n for n, _ in node.next_functions if n is not None]
        assert "traceback_" not in call(leaf()).grad_fn.metadata

    def test_in_place_operations(self):
        with set_detect_anomaly(True):
            y, viewed, set_to, copied = (leaf() * 1 for _ in range(4))
            y.exp_()
            view = viewed[:2]
            view.mul_(2)
            set_to[0] = 5.0
            copied.copy_(y)
            for tensor in (y, viewed, view, set_to, copied):
                assert "test_in_place_operations" in "".join(tensor.grad_fn.metadata["traceback_"])
        assert viewed.grad_fn.name() == "CopySlices"
        written, _ = viewed.grad_fn.next_functions[1]
        assert written.metadata["traceback_"][-1].rstrip().endswith("view.mul_(2)")

    def test_on_in_backward_only(self):
        y = make_root(leaf(-1.0))
        with set_detect_anomaly(True):
            error = failure(y.backward)
        assert notes_of(error) == ("Error detected in SqrtBackward0. No forward pass information available. Enable "
                                   "detect anomaly during forward pass for more information.")

    def test_on_in_forward_only(self):
        with set_detect_anomaly(True):
            y = make_root(leaf(-1.0))
        x = leaf(-1.0)
        y.backward()
        z = make_failing(x)
        assert not notes_of(failure(lambda: z.sum().backward(), ValueError))

    def test_parents_in_a_double_backward(self):
        with set_detect_anomaly(True):
            x = leaf(4.0)
            y = x.pow(1.5)
            (g,) = grad(y, x, create_graph=True)
            made = g.grad_fn
            assert made.metadata["parent_"] is y.grad_fn
            made.register_prehook(lambda gs: {}["missing"])
            note = notes_of(failure(lambda: grad(g, x), KeyError))
        assert note.startswith(f"Error detected in {made.name()}. Traceback of forward call that caused the error:\n")
        assert "grad(y, x, create_graph=True)" in note
        induced = ("Previous calculation was induced by PowBackward0. Traceback of forward call that induced the "
                   "previous calculation:\n")
        assert induced in note
        assert note.index("create_graph=True") < note.index(induced) < note.index("y = x.pow(1.5)")

    def test_parent_without_traceback(self):
        x = leaf(2.0)
        y = x.pow(3)
        with set_detect_anomaly(True):
            (g,) = grad(y, x, create_graph=True)
            g.grad_fn.register_prehook(lambda gs: 1 / 0)
            note = notes_of(failure(lambda: grad(g, x), ZeroDivisionError))
        assert "Previous calculation was induced by PowBackward0. No forward pass information available." in note

    @pytest.mark.parametrize("kind", ["tensor", "pre", "post", "leaf", "post-accumulate", "start"])
    def test_errors_in_hooks_name_the_node(self, kind):
        with set_detect_anomaly(True):
            x = leaf()
            y = x * 2
            register = {"tensor": y.register_hook, "pre": y.grad_fn.register_prehook, "post": y.grad_fn.register_hook,
                        "leaf": x.register_hook, "post-accumulate": x.register_post_accumulate_grad_hook,
                        "start": ag.autograd.graph.on_node_start}[kind]
            with register(lambda *args: 1 / 0):
                note = notes_of(failure(lambda: y.sum().backward(), ZeroDivisionError))
        name = {"leaf": "AccumulateGrad", "post-accumulate": "AccumulateGrad", "start": "SumBackward0"}
        assert note.startswith(f"Error detected in {name.get(kind, 'MulBackward0')}. ")

    def test_nested_tasks_name_both_nodes(self):
        with set_detect_anomaly(True):
            inner = make_failing(leaf()).sum()
            x = leaf()
            y = x * 2
            y.register_hook(lambda g: inner.backward())
            note = notes_of(failure(lambda: y.sum().backward(), ValueError))
        assert note.index("Error detected in FailingBackward") < note.index("Error detected in MulBackward0")

    def test_on_helper_threads(self):
        class Deep(Function):
            @staticmethod
            def forward(ctx, x, n):
                ctx.n = n
                return x * 2

            @staticmethod
            def backward(ctx, g):
                if not ctx.n:
                    raise KeyError("at the bottom")
                with ag.enable_grad():
                    Deep.apply(ag.ones(1, requires_grad=True), ctx.n - 1).backward()
                return g, None

        with set_detect_anomaly(True):
            y = Deep.apply(ag.ones(1, requires_grad=True), 40)
            error = failure(y.backward, KeyError)
        assert len(error.__notes__) >= 41


class TestNan:
    def test_names_the_output(self):
        with set_detect_anomaly(True):
            a, b = leaf(1.0), leaf(2.0)
            y = a * b
            y.grad_fn.register_hook(lambda grads, gs: (grads[0], grads[1] * float("nan")))
            with pytest.raises(RuntimeError, match=r"Function 'MulBackward0' returned nan values in its 1th output\."):
                y.backward()
            assert a.grad is None

    def test_not_asked_for(self):
        x = leaf(-1.0)
        with set_detect_anomaly(True, check_nan=False):
            make_root(x).backward()
        assert np.isnan(x.grad.item())

    def test_recorded(self):
        x = leaf(-1.0)
        with set_detect_anomaly(True), pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"):
            grad(make_root(x), x, create_graph=True)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
    def test_of_other_dtypes(self, dtype):
        x = ag.tensor([-1.0], dtype=dtype, requires_grad=True)
        with set_detect_anomaly(True), pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"):
            make_root(x).sum().backward()

    def test_of_a_weight_that_has_a_grad_already(self):
        """A product that is added into `.grad` in one call is looked at, too."""
        w, x = ag.ones(2, 2, requires_grad=True), ag.full((2, 2), float("nan"))
        w.grad = ag.zeros(2, 2)
        with set_detect_anomaly(True), pytest.raises(RuntimeError, match="returned nan values in its 1th output"):
            (x @ w).sum().backward()
        assert w.grad.tolist() == [[0.0, 0.0]] * 2

    def test_the_numbers_are_those_without_it(self):
        def run():
            ag.manual_seed(0)
            net = ag.nn.Sequential(ag.nn.Linear(3, 4), ag.nn.Tanh(), ag.nn.LayerNorm(4), ag.nn.Linear(4, 2))
            net(ag.ones(5, 3)).square().sum().backward()
            return [p.grad.tolist() for p in net.parameters()]

        with set_detect_anomaly(True):
            watched = run()
        assert watched == run()


class TestInPlace:
    def overwritten(self):
        y = leaf().exp()
        with ag.no_grad():
            y.add_(1)
        return y.sum()

    def test_hint_to_turn_it_on(self):
        text = str(failure(self.overwritten().backward))
        assert text.endswith("is at version 1; expected version 0 instead. Hint: enable anomaly detection to find the "
                             "operation that failed to compute its gradient, with "
                             "ag.autograd.set_detect_anomaly(True, check_nan=False).")

    def test_hint_when_it_is_on(self):
        with set_detect_anomaly(True):
            error = failure(self.overwritten().backward)
        assert str(error).endswith("Hint: the backtrace further above shows the operation that failed to compute its "
                                   "gradient. The variable in question was changed in there or anywhere later. "
                                   "Good luck!")
        assert "y = leaf().exp()" in notes_of(error)


class TestModes:
    def state(self):
        return ag.is_anomaly_enabled(), ag.is_anomaly_check_nan_enabled()

    def test_nested(self):
        assert self.state() == (False, True)
        with set_detect_anomaly(True, check_nan=False):
            assert self.state() == (True, False)
            with set_detect_anomaly(False):
                assert self.state() == (False, True)
            assert self.state() == (True, False)
        assert self.state() == (False, True)

    def test_at_once(self):
        set_detect_anomaly(True)
        try:
            assert self.state() == (True, True)
        finally:
            ag.set_anomaly_enabled(False)
        assert self.state() == (False, True)

    def test_detect_anomaly_warns(self):
        with pytest.warns(UserWarning, match="Anomaly Detection has been enabled. This mode will increase the runtime"):
            mode = detect_anomaly(check_nan=False)
        assert self.state() == (False, True)
        with mode:
            assert self.state() == (True, False)
        assert self.state() == (False, True)

    def test_an_exception_restores(self):
        with pytest.raises(ZeroDivisionError), set_detect_anomaly(True):
            raise ZeroDivisionError
        assert self.state() == (False, True)

    def test_with_other_modes(self):
        with set_detect_anomaly(True):
            with ag.no_grad():
                assert self.state() == (True, True)
                assert (leaf() * 2).grad_fn is None
            assert "traceback_" in (leaf() * 2).grad_fn.metadata

    def test_set_within_a_hook_stays(self):
        y = leaf() * 2
        y.register_hook(lambda g: ag.set_anomaly_enabled(True))
        try:
            y.sum().backward()
            assert self.state() == (True, True)
            assert "traceback_" in (leaf() * 2).grad_fn.metadata
            assert ag.is_grad_enabled()
        finally:
            ag.set_anomaly_enabled(False)

    def test_thread_local(self):
        seen = []
        with set_detect_anomaly(True):
            thread = threading.Thread(target=lambda: seen.append((self.state(), (leaf() * 2).grad_fn.metadata)))
            thread.start()
            thread.join()
        assert seen == [((False, True), {})]


def test_texts_are_pytorchs():
    torch = pytest.importorskip("torch")
    cases = {}
    for lib, ours in ((torch, False), (ag, True)):
        with lib.autograd.set_detect_anomaly(True), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = lib.tensor([-1.0], requires_grad=True).sqrt()
            error = failure(y.backward)
            said = notes_of(error) if ours else str(caught[0].message)
        cases[ours] = str(error), said.split("\n")[0], sorted(y.grad_fn.metadata)
    assert cases[True] == cases[False]
