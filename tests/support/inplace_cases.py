"""Arguments of methods that write into their tensor."""

import numpy as np

from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.declare.public import NAMED

FLOAT, WHOLE = np.array([[0.25, 0.5], [0.75, 0.125]]), np.array([[5, 2], [7, 4]])
WITH_INTEGERS = {"gcd", "lcm", *(op for op in REGISTRY if op.startswith("bitwise_"))}
WRITTEN_BACK = [named for named in NAMED if named.inplace and not named.view]
# what a method takes beside its tensor, where that is not one more tensor or nothing
ARGUMENTS = {
    "addbmm": ([[[1.0, 2.0]] * 2], [[[1.0, 2.0]] * 2]), "baddbmm": ([[[1.0, 2.0]] * 2], [[[1.0, 2.0]] * 2]),
    "addmm": ([[1.0, 2.0]] * 2, [[3.0, 4.0]] * 2), "addmv": ([[1.0, 2.0]] * 2, [3.0, 4.0]),
    "addr": ([1.0, 2.0], [3.0, 4.0]), "addcdiv": ([1.0, 2.0], [3.0, 4.0]), "addcmul": ([1.0, 2.0], [3.0, 4.0]),
    "lerp": ([1.0, 2.0], 0.3), "polygamma": (1,), "mvlgamma": (1,), "renorm": (2, 0, 0.5), "cumsum": (1,),
    "cumprod": (0,), "clamp": (0.2, 0.6), "clip": (0.2, 0.6), "clamp_max": (0.6,), "clamp_min": (0.2,),
}  # fmt: skip
BINARY = {
    "atan2", "arctan2", "copysign", "float_power", "heaviside", "hypot", "ldexp", "nextafter", "pow", "eq", "ge", "gt",
    "le", "lt", "ne", "greater", "greater_equal", "less", "less_equal", "not_equal", "logical_and", "logical_or",
    "logical_xor", "floor_divide", "fmod", "remainder", "igamma", "igammac", "xlogy", "gcd", "lcm", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip
