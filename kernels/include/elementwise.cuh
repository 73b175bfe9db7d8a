// Elementwise functions of INPUTS arrays, x[0] and so on, with up to two scalars a and b.
//
// W is the type of the computation. Comparisons are written so that NaN propagates, as in PyTorch.
#pragma once

template <typename W> struct Abs {
    static constexpr int INPUTS = 1;
    W unused[2];
    __device__ W operator()(const W* x) const { return fabs(x[0]); }
};
template <typename W> struct Sqrt {
    static constexpr int INPUTS = 1;
    W unused[2];
    __device__ W operator()(const W* x) const { return sqrt(x[0]); }
};
template <typename W> struct Reciprocal {
    static constexpr int INPUTS = 1;
    W unused[2];
    __device__ W operator()(const W* x) const { return 1 / x[0]; }
};
template <typename W> struct Exp {
    static constexpr int INPUTS = 1;
    W unused[2];
    __device__ W operator()(const W* x) const { return exp(x[0]); }
};
template <typename W> struct Log {
    static constexpr int INPUTS = 1;
    W unused[2];
    __device__ W operator()(const W* x) const { return log(x[0]); }
};

// One array and the scalars.
template <typename W> struct AddScalar {
    static constexpr int INPUTS = 1;
    W a, unused;
    __device__ W operator()(const W* x) const { return x[0] + a; }
};
template <typename W> struct MulScalar {
    static constexpr int INPUTS = 1;
    W a, unused;
    __device__ W operator()(const W* x) const { return x[0] * a; }
};
template <typename W> struct DivScalar {
    static constexpr int INPUTS = 1;
    W a, unused;
    __device__ W operator()(const W* x) const { return x[0] / a; }
};
template <typename W> struct PowScalar {
    static constexpr int INPUTS = 1;
    W a, unused;
    __device__ W operator()(const W* x) const { return pow(x[0], a); }
};
template <typename W> struct Clamp {
    static constexpr int INPUTS = 1;
    W a, b;
    __device__ W operator()(const W* x) const {
        const W raised = x[0] < a ? a : x[0];
        return raised > b ? b : raised;
    }
};

// Two arrays.
template <typename W> struct Add {
    static constexpr int INPUTS = 2;
    W a, unused;
    __device__ W operator()(const W* x) const { return x[0] + a * x[1]; }
};
template <typename W> struct Mul {
    static constexpr int INPUTS = 2;
    W unused[2];
    __device__ W operator()(const W* x) const { return x[0] * x[1]; }
};
template <typename W> struct Div {
    static constexpr int INPUTS = 2;
    W unused[2];
    __device__ W operator()(const W* x) const { return x[0] / x[1]; }
};
template <typename W> struct Maximum {
    static constexpr int INPUTS = 2;
    W unused[2];
    __device__ W operator()(const W* x) const { return x[0] > x[1] || x[0] != x[0] ? x[0] : x[1]; }
};
template <typename W> struct Minimum {
    static constexpr int INPUTS = 2;
    W unused[2];
    __device__ W operator()(const W* x) const { return x[0] < x[1] || x[0] != x[0] ? x[0] : x[1]; }
};

// Linear interpolation from x[0] to x[1], computed from x[1] if the weight is large, so that a weight of 1 gives x[1].
template <typename W> __device__ W between(W from, W to, W weight) {
    const W way = to - from;
    return fabs(weight) < W(0.5) ? from + weight * way : to - way * (1 - weight);
}
template <typename W> struct LerpScalar {
    static constexpr int INPUTS = 2;
    W a, unused;
    __device__ W operator()(const W* x) const { return between(x[0], x[1], a); }
};

// Three arrays.
template <typename W> struct Lerp {
    static constexpr int INPUTS = 3;
    W unused[2];
    __device__ W operator()(const W* x) const { return between(x[0], x[1], x[2]); }
};
template <typename W> struct Addcmul {
    static constexpr int INPUTS = 3;
    W a, unused;
    __device__ W operator()(const W* x) const { return x[0] + a * x[1] * x[2]; }
};
template <typename W> struct Addcdiv {
    static constexpr int INPUTS = 3;
    W a, unused;
    __device__ W operator()(const W* x) const { return x[0] + a * (x[1] / x[2]); }
};
