// Functions of numbers that CUDA has not, or has with more digits than we need. Formulas call them
// (backend/formulas/cuda_code.py); what else is computed of an element is generated from formulas.
#pragma once
#include "half_turns.cuh"

// a / b to 2 units in the last place, and 0 for b beyond 2^126.
__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a * (1 / b); }

template <typename W> __device__ W reciprocal(W x) { return quotient(W(1), x); }

template <typename W> __device__ W logistic(W z) { return reciprocal(1 + exp(-z)); }

// NaN if one of both is NaN.
template <typename W> __device__ W minimum(W a, W b) { return a < b || a != a ? a : b; }
template <typename W> __device__ W maximum(W a, W b) { return a > b || a != a ? a : b; }

template <typename W> __device__ W sign(W x) { return x > 0 ? W(1) : x < 0 ? W(-1) : x; }

// The standard normal distribution function with full relative accuracy; float: the polynomial of
// backend/formulas/lowering.py.
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

// ---- functors of elementwise.cu that no formula describes ----------------------------------------------

template <typename W> struct NanToNum {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W nan, positive, negative;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        W out = isnan(x[0]) ? nan : x[0];
        if (isinf(out) && out > 0) out = positive;
        y[0] = isinf(out) && out < 0 ? negative : out;
    }
};

// Its gradient, from the gradient of the result and the input.
template <typename W> struct NanToNumGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const { y[0] = isfinite(x[1]) ? x[0] : 0; }
};

template <typename W> struct Sinc {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W angle = x[0] * W(3.14159265358979323846);
        y[0] = angle == 0 ? 1 : sinpi(half_turns(angle)) / angle;
    }
};

template <typename W> struct Frac {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const { y[0] = x[0] - trunc(x[0]); }
};

template <typename W> struct Rsqrt {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const { y[0] = 1 / sqrt(x[0]); }
};
