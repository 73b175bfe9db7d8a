// Activations of one number, with their first three derivatives.
//
// W is the type of the computation. An activation's members are its two parameters, which it may ignore. It has
//   value(z)   the result, for z = x + bias
//   pull(g, s) g times the derivative, where s is the saved value: the result if FROM_RESULT, else z
//   second(s)    the derivative of the derivative with respect to s; FLAT activations, where it is 0, have none
//   third(s)   the derivative of the second derivative (with respect to z) with respect to s; FLAT ones have none
// The formulas are those of autograd_gpu/ops/, also where they give NaN. The compiler may contract them to fma.
#pragma once
#include "half_turns.cuh"

// 1 / x to 2 units in the last place, and 0 for infinity.
__device__ inline float reciprocal(float x) { return __fdividef(1.0f, x); }
__device__ inline double reciprocal(double x) { return 1.0 / x; }

template <typename W> __device__ W logistic(W z) { return reciprocal(1 + exp(-z)); }

// 1 - s for s = logistic(z), without cancellation where s is close to 1.
template <typename W> __device__ W complement(W s, W z) { return z > 0 ? exp(-z) * s : 1 - s; }

// The standard normal distribution function with full relative accuracy; float: the polynomial of ops/nn/gelu.py.
__device__ inline double normal_below(double z) { return 0.5 * erfc(z * -0.70710678118654752440); }
__device__ inline float normal_below(float z) {
    const float TAIL[] = {0.11983629542126604f, 0.12097006133733715f, 0.10002964812344848f, 0.1286564865815722f,
                          -0.053832011199918505f, 0.20634120634624464f, -0.1581409602609308f, 0.036139301560356885f};
    const float t = reciprocal(1 + fabsf(z) * 0.30052038200428268f);
    float tail = TAIL[7];
    #pragma unroll
    for (int i = 6; i >= 0; --i) tail = tail * t + TAIL[i];
    tail *= t * exp(-0.5f * z * z);
    return z > 0 ? 1 - tail : tail;
}

template <typename W> struct Relu {
    static constexpr bool FROM_RESULT = true, FLAT = true;
    W unused[2];
    __device__ W value(W z) const { return z <= 0 ? 0 : z; }
    __device__ W pull(W g, W out) const { return out <= 0 ? 0 : g; }
};

template <typename W> struct LeakyRelu {
    static constexpr bool FROM_RESULT = false, FLAT = true;
    W slope, unused;
    __device__ W value(W z) const { return z > 0 ? z : z * slope; }
    __device__ W pull(W g, W z) const { return z > 0 ? g : g * slope; }
};

// elu and celu: alpha * (exp(inner * z) - 1) where z <= 0.
template <typename W> struct Elu {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W alpha, inner;
    __device__ W value(W z) const { return z > 0 ? z : alpha * expm1(z * inner); }
    __device__ W pull(W g, W z) const { return z > 0 ? g : g * exp(z * inner) * (alpha * inner); }
    __device__ W second(W z) const { return z >= 0 ? 0 : exp(z * inner) * (alpha * inner * inner); }
    __device__ W third(W z) const { return z >= 0 ? 0 : exp(z * inner) * (alpha * inner * inner * inner); }
};

template <typename W> struct Gelu {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W unused[2];
    static __device__ W density(W z) { return exp(W(-0.5) * z * z) * W(0.39894228040143267794); }
    __device__ W value(W z) const { return z * normal_below(z); }
    __device__ W pull(W g, W z) const { return g * (normal_below(z) + z * density(z)); }
    __device__ W second(W z) const { return density(z) * (2 - z * z); }
    __device__ W third(W z) const { return density(z) * z * (z * z - 4); }
};

// z * logistic(inner(z)), where 1 + tanh would cancel in the tail.
template <typename W> struct GeluTanh {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    static constexpr W SCALE = 1.59576912160573071176, CUBIC = 0.044715;
    W unused[2];
    static __device__ W inner(W z) { return z * (z * z * CUBIC + 1) * SCALE; }
    static __device__ W slope(W z) { return (z * z * (3 * CUBIC) + 1) * SCALE; }
    __device__ W value(W z) const { return z * logistic(inner(z)); }
    __device__ W pull(W g, W z) const {
        const W s = logistic(inner(z));
        return g * (s * (1 + z * (1 - s) * slope(z)));
    }
    __device__ W second(W z) const {
        const W s = logistic(inner(z)), rest = complement(s, inner(z)), r = slope(z);
        return s * rest * (2 * r + z * (z * (6 * CUBIC * SCALE) + (rest - s) * r * r));
    }
    __device__ W third(W z) const {
        const W s = logistic(inner(z)), rest = complement(s, inner(z)), r = slope(z), apart = rest - s;
        const W curve = z * (6 * CUBIC * SCALE);  // the derivative of r
        const W third = (apart * apart - 2 * s * rest) * r * r * r + 3 * apart * r * curve + 6 * CUBIC * SCALE;
        return s * rest * (3 * (apart * r * r + curve) + z * third);
    }
};

template <typename W> struct Silu {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W unused[2];
    __device__ W value(W z) const { return z * logistic(z); }
    __device__ W pull(W g, W z) const {
        const W s = logistic(z);
        return g * (s * (1 + z * (1 - s)));
    }
    __device__ W second(W z) const {
        const W s = logistic(z), rest = complement(s, z);
        return s * rest * (z * (rest - s) + 2);
    }
    __device__ W third(W z) const {
        const W s = logistic(z), rest = complement(s, z), apart = rest - s;
        return s * rest * (3 * apart + z * (apart * apart - 2 * s * rest));
    }
};

template <typename W> struct Tanh {
    static constexpr bool FROM_RESULT = true, FLAT = false;
    W unused[2];
    __device__ W value(W z) const { return tanh(z); }
    __device__ W pull(W g, W out) const { return g * (1 - out * out); }
    __device__ W second(W out) const { return -2 * out; }
    __device__ W third(W out) const { return 6 * out * out - 2; }
};

template <typename W> struct Sigmoid {
    static constexpr bool FROM_RESULT = true, FLAT = false;
    W unused[2];
    __device__ W value(W z) const { return logistic(z); }
    __device__ W pull(W g, W out) const { return g * (out * (1 - out)); }
    __device__ W second(W out) const { return 1 - 2 * out; }
    __device__ W third(W out) const { return 1 - 6 * out * (1 - out); }
};

template <typename W> struct Softplus {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W beta, threshold;
    __device__ W value(W z) const { return z * beta > threshold ? z : log1p(exp(z * beta)) / beta; }
    __device__ W pull(W g, W z) const { return z * beta > threshold ? g : g * logistic(z * beta); }
    __device__ W second(W z) const {
        const W s = logistic(z * beta), rest = complement(s, z * beta);
        return z * beta > threshold ? 0 : beta * s * rest;
    }
    __device__ W third(W z) const {
        const W s = logistic(z * beta), rest = complement(s, z * beta);
        return z * beta > threshold ? 0 : beta * beta * s * rest * (rest - s);
    }
};

// sin(frequency * z), as in SIREN (Sitzmann et al. 2020).
template <typename W> struct Sine {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W frequency, unused;
    __device__ W value(W z) const { return sinpi(half_turns(z * frequency)); }
    __device__ W pull(W g, W z) const { return g * cospi(half_turns(z * frequency)) * frequency; }
    __device__ W second(W z) const { return sinpi(half_turns(z * frequency)) * (-frequency * frequency); }
    __device__ W third(W z) const { return cospi(half_turns(z * frequency)) * (-frequency * frequency * frequency); }
};
