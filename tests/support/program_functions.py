"""The custom Functions of random programs."""

from __future__ import annotations

UNARY = ("scale", "double_", "view", "same", "buffer", "keyword", "numbered")
BINARY = ("half", "undefined")


def functions(ns):
    """The custom Functions of a program, by name."""

    class Scale(ns.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2.0 * g * x

    class Double(Scale):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2.0)

        @staticmethod
        def backward(ctx, g):
            return g * 2.0

    class View(Double):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x.reshape(x.shape).unsqueeze(0)

        @staticmethod
        def backward(ctx, g):
            return 3.0 * g.reshape(ctx.shape)

    class Same(Double):
        @staticmethod
        def forward(ctx, x):
            return x

    class Buffer(ns.autograd.Function):
        """Writes to a view of a buffer of its own, and returns the view."""

        @staticmethod
        def forward(ctx, x):
            row = ns.zeros((2, *x.shape), dtype=ns.float64)[0]
            row += x
            return row

        @staticmethod
        def backward(ctx, g):
            return g

    class Keyword(ns.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor=2.0):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g, *_):
            return g * ctx.factor, None

    class Numbered(ns.autograd.Function):
        """Returns something that is no tensor between two tensors."""

        @staticmethod
        def forward(ctx, x):
            return x * 2.0, 5, x * 3.0

        @staticmethod
        def backward(ctx, g, number, h):
            assert number is None
            return g * 2.0 + h * 3.0

    class Half(ns.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * 2.0, b * 2.0

        @staticmethod
        def backward(ctx, g, h):
            return g * 2.0, None

    class Undefined(ns.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.set_materialize_grads(False)
            return a * 2.0, b * 3.0

        @staticmethod
        def backward(ctx, g, h):
            return None if g is None else g * 2.0, None if h is None else h * 3.0

    return {
        "scale": Scale, "double_": Double, "view": View, "same": Same, "buffer": Buffer, "keyword": Keyword,
        "numbered": Numbered, "half": Half, "undefined": Undefined,
    }  # fmt: skip
