// Functions of one number that are no activation of include/activations.cuh, and their first derivatives.
//
// W is the type of the computation. A function's members are its three parameters, which it may ignore. It has
//   value(z)   the result
//   pull(g, z) g times the derivative; functions without it have the derivative's kernel elsewhere, or need none
// The formulas are those of autograd_gpu/ops/, also where they give NaN. The compiler may contract them to fma.
#pragma once
#include "activations.cuh"

template <typename W> struct Selu {
    static constexpr W SCALE = 1.0507009873554804934193349852946, ALPHA = 1.6732632423543772848170429916717;
    W unused[3];
    __device__ W value(W z) const { return z > 0 ? z * SCALE : SCALE * ALPHA * expm1(z); }
    __device__ W pull(W g, W z) const { return z > 0 ? g * SCALE : g * SCALE * (exp(z) * ALPHA); }
};

template <typename W> struct LogSigmoid {
    W unused[3];
    __device__ W value(W z) const { return (z < 0 ? z : 0) - log1p(exp(-fabs(z))); }
    __device__ W pull(W g, W z) const { return g * logistic(-z); }
};

// z * tanh(softplus(z)), where tanh(log(1 + e)) = t / (t + 2) for e = exp(z) and t = e (e + 2). It is z from 20 on.
template <typename W> struct Mish {
    W unused[3];
    static __device__ W gate(W z) {
        const W e = exp(z > 20 ? W(20) : z), t = e * (e + 2);
        return t / (t + 2);
    }
    __device__ W value(W z) const { return z * gate(z); }
    __device__ W pull(W g, W z) const {
        const W u = gate(z);
        return g * (z > 20 ? u : u + z * logistic(z) * (1 - u * u));
    }
};

template <typename W> struct Softsign {
    W unused[3];
    __device__ W value(W z) const { return z / (fabs(z) + 1); }
    __device__ W pull(W g, W z) const {
        const W d = fabs(z) + 1;
        return g / (d * d);
    }
};

// z limited to [low, high]; NaN stays.
template <typename W> __device__ W limited(W z, W low, W high) { return z < low ? low : z > high ? high : z; }

template <typename W> struct HardTanh {
    W low, high, unused;
    __device__ W value(W z) const { return limited(z, low, high); }
    __device__ W pull(W g, W z) const { return z <= low || z >= high ? 0 : g; }
};

template <typename W> struct HardSigmoid {
    static constexpr W SIXTH = 1.0 / 6;
    W unused[3];
    __device__ W value(W z) const { return limited<W>(z + 3, 0, 6) * SIXTH; }
    __device__ W pull(W g, W z) const { return z > -3 && z < 3 ? g * SIXTH : 0; }
};

template <typename W> struct HardSwish {
    static constexpr W SIXTH = 1.0 / 6, THIRD = 1.0 / 3;
    W unused[3];
    __device__ W value(W z) const { return z * (limited<W>(z + 3, 0, 6) * SIXTH); }
    __device__ W pull(W g, W z) const { return z >= 3 ? g : z <= -3 ? 0 : g * (z * THIRD + W(0.5)); }
};

template <typename W> struct HardShrink {
    W limit, unused[2];
    __device__ W value(W z) const { return fabs(z) <= limit ? 0 : z; }
    __device__ W pull(W g, W z) const { return z >= -limit && z <= limit ? 0 : g; }
};

template <typename W> struct SoftShrink {
    W limit, unused[2];
    __device__ W value(W z) const { return z - limited(z, -limit, limit); }
    __device__ W pull(W g, W z) const { return z >= -limit && z <= limit ? 0 : g; }
};

template <typename W> struct Threshold {
    W threshold, instead, unused;
    __device__ W value(W z) const { return z <= threshold ? instead : z; }
    __device__ W pull(W g, W z) const { return z <= threshold ? 0 : g; }
};

template <typename W> struct NanToNum {
    W nan, positive, negative;
    __device__ W value(W z) const {
        W out = isnan(z) ? nan : z;
        if (isinf(out) && out > 0) out = positive;
        return isinf(out) && out < 0 ? negative : out;
    }
    __device__ W pull(W g, W z) const { return isfinite(z) ? g : 0; }
};

template <typename W> struct Sinc {
    W unused[3];
    __device__ W value(W z) const {
        const W angle = z * W(3.14159265358979323846);
        return angle == 0 ? 1 : sinpi(half_turns(angle)) / angle;
    }
};

template <typename W> struct Frac {
    W unused[3];
    __device__ W value(W z) const { return z - trunc(z); }
};

template <typename W> struct Rsqrt {
    W unused[3];
    __device__ W value(W z) const { return 1 / sqrt(z); }
};
