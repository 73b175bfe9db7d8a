"""Memory that runs out somewhere in a training step with checkpoints: as in test_failures.py."""

from failing import NUMBERS, Expected, Scale, World, fail_everywhere

import autograd_gpu as ag
from autograd_gpu.nn import functional as F
from autograd_gpu.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


class Checkpointed(World):
    """The same step with checkpoints in checkpoints, one of which keeps the results of products."""

    def loss(self):
        ag.manual_seed(7)

        def contexts():
            return create_selective_checkpoint_contexts([ag.linear])

        def embed(x):
            return self.net.shared(self.net.first(x).relu())

        def net(x):
            h = Scale.apply(checkpoint(embed, x, use_reentrant=False, context_fn=contexts))
            h.register_hook(lambda g: g * 0.5)
            h = checkpoint(lambda h: self.net.drop(self.net.norm(h)).relu(), h, use_reentrant=False)
            return self.net.last(self.net.shared(h))

        return F.cross_entropy(checkpoint(net, self.x, use_reentrant=False), self.y)


def test_out_of_memory_at_every_allocation(device, no_gc):
    """The next step is compared with one without checkpoints."""
    expected = Expected("plain", device, 1)
    count = fail_everywhere(lambda: Checkpointed("plain", device), World.train, expected.check, device, NUMBERS)
    assert count > (100 if device == "cpu" else 50)  # kernels need fewer
