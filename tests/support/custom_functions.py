"""Custom Functions that several tests apply."""

import autograd_gpu as ag


class Exp(ag.autograd.Function):
    """Saves its output, and its input for nothing."""

    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out, x)
        return out

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Double(ag.autograd.Function):
    """Writes to its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(2)
