"""TaskState: what one call of backward or grad knows."""

import autograd_gpu as ag
from autograd_gpu.core.engine.task_state import TaskState, final_callbacks_of, running_task, will_reach


def edge(x):
    result = ag.autograd.graph.get_gradient_edge(x)
    return result.node, result.output_nr


def test_captures_by_node_and_the_floor_of_the_walk(device):
    x = ag.ones(2, device=device, requires_grad=True)
    y = x * 2
    z = y.exp()
    task = TaskState([(*edge(z), z.array), (*edge(y), y.array)], False, False, False, False, None)
    assert task.captures == {z.grad_fn: [(0, 0)], y.grad_fn: [(1, 0)]}
    assert task.floor == y.grad_fn.topological_nr
    assert task.results == [None, None]
    leaf = TaskState([(*edge(x), x.array)], False, False, False, False, None)
    assert leaf.captures == {edge(x)[0]: []}  # read from its buffer at the end
    assert leaf.floor == 0


def test_the_running_task_is_that_of_the_thread(device):
    x, seen = ag.ones(2, device=device, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda g: seen.append(running_task()))
    assert running_task() is None
    y.sum().backward()
    assert isinstance(seen[0], TaskState)
    assert running_task() is None


def test_what_a_task_will_reach(device):
    x, w = (ag.ones(2, device=device, requires_grad=True) for _ in range(2))
    a, b, seen = x * 2, w * 3, []
    y = (a + b).exp()
    y.register_hook(lambda g: seen.append([will_reach(running_task(), *edge(t)) for t in (a, b, x, w)]))
    ag.autograd.grad(y.sum(), x, retain_graph=True)
    assert seen.pop() == [True, False, True, False]
    y.sum().backward()
    assert seen.pop() == [True, True, True, True]


def test_final_callbacks_are_made_once():
    task = TaskState(None, True, False, False, False, None)
    assert task.final_callbacks is None
    assert final_callbacks_of(task) is final_callbacks_of(task) is task.final_callbacks
