"""Instructions of random programs by which user code looks on: hooks and their order, checkpoints, threads."""

from __future__ import annotations

import threading

from programs import UNARY

import autograd_gpu as ag

THREADS = 3


class Onlooker:
    """The part of `machine.Machine` that sets hooks of nodes, and runs code where an onlooker may be called."""

    def note(self):
        """A list that the trace shows at the end."""
        results = self.seen[len(self.seen)] = []
        return results

    def do_watch(self, i):
        """How many gradients the hooks of a node get, and which of them are None."""
        x = self.readable(i)
        if x is None or x.grad_fn is None or x._is_view():
            return "skipped"  # hooks of a view that is written to are never called in PyTorch
        result = self.note()

        def called(name, gs):
            missing = [g is None for g in gs]
            if not all(missing):  # PyTorch calls hooks of nodes that no gradient reaches, too
                result.append((name, missing))

        x.grad_fn.register_prehook(lambda gs: called("pre", gs))
        x.grad_fn.register_hook(lambda into, gs: called("post", gs))

    def do_order(self, i):
        """The hooks of a leaf, and those of its node."""
        x = self.readable(i)
        if x is None or not x.is_leaf or not x.requires_grad:
            return "skipped"
        result, node = self.note(), self.ns.autograd.graph.get_gradient_edge(x).node
        arrived = True  # PyTorch calls the hooks of a leaf with None, too, where a Function answered None

        def tensor_hook(g):
            nonlocal arrived
            arrived = g is not None
            called("tensor")

        def called(name):
            if arrived and x.requires_grad:  # PyTorch calls the last two for one that was detached since
                result.append(name)

        x.register_hook(tensor_hook)
        x.register_post_accumulate_grad_hook(lambda t: called("accumulated"))
        node.register_prehook(lambda gs: called("before"))
        node.register_hook(lambda into, gs: called("after"))
        self.held.append(node)

    def do_push(self, i):
        """A hook that goes into saved-tensor hooks and not out of them."""
        x = self.readable(i)
        if x is None or not x.requires_grad or (x._is_view() and not x._base.requires_grad):
            return "skipped"
        result = self.note()

        def pack(t):
            if self.step not in ("grad", "materialized"):  # with create_graph PyTorch hands over the rest of that call
                result.append("packed")
            return t

        def enter(g):
            hooks = self.ns.autograd.graph.saved_tensors_hooks(pack, lambda t: t)
            hooks.__enter__()
            self.held.append(hooks)

        self.hooked.append(x)
        x.register_hook(enter)

    def do_checkpoint(self, name, i, twice):
        """One or two operations that run again in backward."""
        x = self.readable(i)
        if x is None:
            return "skipped"
        run = UNARY[name]
        self.keep(self.checkpoint(lambda x: run(run(x)) if twice else run(x), x, use_reentrant=False))

    def do_threads(self, outs):
        """Some threads run the same backward.

        PyTorch's run it one after the other, for at once they crash in retain_grad. Each gets gradients of its own, for
        PyTorch adds into those that it was given.
        """
        outs, gs = self.outputs(outs)
        if not outs or self.seen or any(not out.requires_grad for out in outs):
            return "skipped"  # what hooks see has no order then
        errors = []

        def work():
            try:
                self.ns.autograd.backward(outs, [g.clone() for g in gs], retain_graph=True)
            except RuntimeError as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
            if self.ns is not ag:
                thread.join()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
