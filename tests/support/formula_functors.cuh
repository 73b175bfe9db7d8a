// Of bias_activation.cu, second_order.cu and recurrent.cu.

// maximum(x, 0)
template <typename W> struct Relu {
    static constexpr bool FROM_RESULT = true, FLAT = true;
    W unused;
    __device__ W value(W x) const { return maximum(x, W(0)); }
    __device__ W pull(W g, W out) const { return out <= W(0) ? W(0) : g; }
};

// sigmoid(x)
template <typename W> struct Sigmoid {
    static constexpr bool FROM_RESULT = true, FLAT = false;
    W unused;
    __device__ W value(W x) const { return reciprocal(exp(-x) + W(1)); }
    __device__ W pull(W g, W out) const { return g * out * (W(1) - out); }
    __device__ W bend(W out) const { return W(1) - out * W(2); }
    __device__ W twist(W out) const {
        const W t1 = W(1) - out * W(2);
        return t1 * t1 - out * (W(1) - out) * W(2);
    }
};

// tanh(x)
template <typename W> struct Tanh {
    static constexpr bool FROM_RESULT = true, FLAT = false;
    W unused;
    __device__ W value(W x) const { return tanh(x); }
    __device__ W pull(W g, W out) const { return g * (W(1) - out * out); }
    __device__ W bend(W out) const { return out * W(-2); }
    __device__ W twist(W out) const { return (W(1) - out * out * W(3)) * W(-2); }
};

// x * sigmoid(x)
template <typename W> struct Silu {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W unused;
    __device__ W value(W x) const { return quotient(x, exp(-x) + W(1)); }
    __device__ W pull(W g, W x) const {
        const W t1 = exp(-x);
        return quotient(g, t1 + W(1)) * (W(1) + quotient(x, reciprocal(t1) + W(1)));
    }
    __device__ W bend(W x) const {
        const W t1 = exp(-x);
        const W t3 = reciprocal(t1 + W(1));
        const W t6 = reciprocal(reciprocal(t1) + W(1));
        return t3 * t6 * (x * (t6 - t3) + W(2));
    }
    __device__ W twist(W x) const {
        const W t1 = exp(-x);
        const W t3 = reciprocal(t1 + W(1));
        const W t6 = reciprocal(reciprocal(t1) + W(1));
        const W t8 = t6 - t3;
        return t3 * t6 * (t8 * (x * t8 + W(2)) + t6 * (W(1) - x * t3 * W(2)) - t3);
    }
};

// sin(x * frequency)
// n0 = frequency, n1 = frequency * frequency, n2 = frequency * frequency * frequency
template <typename W> struct Sine {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W n0, n1, n2;
    __device__ W value(W x) const { return sinpi(half_turns(x * n0)); }
    __device__ W pull(W g, W x) const { return g * cospi(half_turns(x * n0)) * n0; }
    __device__ W bend(W x) const { return -(sinpi(half_turns(x * n0)) * n1); }
    __device__ W twist(W x) const { return -(cospi(half_turns(x * n0)) * n2); }
};

// maximum(x, 0) + expm1(minimum(x, 0)) * alpha
// n0 = alpha
template <typename W> struct Elu {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W n0;
    __device__ W value(W x) const { return maximum(x, W(0)) + expm1(minimum(x, W(0))) * n0; }
    __device__ W pull(W g, W x) const { return g * (x > W(0) ? W(1) : exp(minimum(x, W(0))) * n0); }
    __device__ W bend(W x) const { return x >= W(0) ? W(0) : exp(x) * n0; }
    __device__ W twist(W x) const { return x >= W(0) ? W(0) : exp(x) * n0; }
};

// maximum(x, 0) + expm1(minimum(x, 0) * (1 / alpha)) * alpha
// n0 = 1 / alpha, n1 = alpha, n2 = 1 / alpha * (1 / alpha)
template <typename W> struct Celu {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W n0, n1, n2;
    __device__ W value(W x) const { return maximum(x, W(0)) + expm1(minimum(x, W(0)) * n0) * n1; }
    __device__ W pull(W g, W x) const { return g * (x > W(0) ? W(1) : exp(minimum(x, W(0)) * n0)); }
    __device__ W bend(W x) const { return x >= W(0) ? W(0) : exp(x * n0) * n0; }
    __device__ W twist(W x) const { return x >= W(0) ? W(0) : exp(x * n0) * n2; }
};

// select(x * beta > threshold, x, log1p(exp(x * beta)) / beta)
// n0 = beta, n1 = threshold, n2 = beta * beta
template <typename W> struct Softplus {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W n0, n1, n2;
    __device__ W value(W x) const {
        const W t0 = x * n0;
        return t0 > n1 ? x : log1p(exp(t0)) / n0;
    }
    __device__ W pull(W g, W x) const {
        const W t0 = x * n0;
        return t0 > n1 ? g : quotient(g, exp(-t0) + W(1));
    }
    __device__ W bend(W x) const {
        const W t0 = x * n0;
        const W t3 = exp(-t0);
        return t0 > n1 ? W(0) : quotient(reciprocal(t3 + W(1)), reciprocal(t3) + W(1)) * n0;
    }
    __device__ W twist(W x) const {
        const W t0 = x * n0;
        const W t3 = exp(-t0);
        const W t5 = reciprocal(t3 + W(1));
        const W t8 = reciprocal(reciprocal(t3) + W(1));
        return t0 > n1 ? W(0) : t5 * t8 * (t8 - t5) * n2;
    }
};

// maximum(x, x * negative_slope)
// n0 = negative_slope
template <typename W> struct LeakyRelu {
    static constexpr bool FROM_RESULT = false, FLAT = true;
    W n0;
    __device__ W value(W x) const { return maximum(x, x * n0); }
    __device__ W pull(W g, W x) const { return x > W(0) ? g : g * n0; }
};

// x * normal_cdf(x)
template <typename W> struct Gelu {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W unused;
    __device__ W value(W x) const { return x * normal_below(x); }
    __device__ W pull(W g, W x) const {
        return g * (normal_below(x) + x * exp(x * x * W(-0.5)) * W(0.3989422804014327));
    }
    __device__ W bend(W x) const {
        const W t0 = x * x;
        return (W(2) - t0) * exp(t0 * W(-0.5)) * W(0.3989422804014327);
    }
    __device__ W twist(W x) const {
        const W t0 = x * x;
        return x * (t0 - W(4)) * exp(t0 * W(-0.5)) * W(0.3989422804014327);
    }
};

// x * sigmoid(x * (x * x * 0.044715 + 1) * 1.5957691216057308)
template <typename W> struct GeluTanh {
    static constexpr bool FROM_RESULT = false, FLAT = false;
    W unused;
    __device__ W value(W x) const {
        return quotient(x, exp(-(x * (x * x * W(0.044715) + W(1)) * W(1.5957691216057308))) + W(1));
    }
    __device__ W pull(W g, W x) const {
        const W t0 = x * x;
        const W t6 = exp(-(x * (t0 * W(0.044715) + W(1)) * W(-1.5957691216057308)));
        return quotient(g, reciprocal(t6) + W(1)) * (W(1) + quotient(x * (t0 * W(0.134145) + W(1)), t6 + W(1)) * W(1.5957691216057308));
    }
    __device__ W bend(W x) const {
        const W t0 = x * x;
        const W t6 = exp(-(x * (t0 * W(0.044715) + W(1)) * W(-1.5957691216057308)));
        const W t8 = reciprocal(t6 + W(1));
        const W t11 = reciprocal(reciprocal(t6) + W(1));
        const W t14 = t0 * W(0.134145) + W(1);
        return t8 * t11 * (t14 * (W(1) + x * t14 * t8 * W(1.5957691216057308)) + x * (x * W(0.402435) - t14 * t14 * t11 * W(1.5957691216057308)) + W(1)) * W(1.5957691216057308);
    }
    __device__ W twist(W x) const {
        const W t0 = x * x;
        const W t6 = exp(-(x * (t0 * W(0.044715) + W(1)) * W(-1.5957691216057308)));
        const W t8 = reciprocal(t6 + W(1));
        const W t11 = reciprocal(reciprocal(t6) + W(1));
        const W t14 = t0 * W(0.134145) + W(1);
        const W t19 = W(1) + x * t14 * t8 * W(1.5957691216057308);
        const W t22 = t14 * t14;
        const W t26 = x * (x * W(0.402435) - t22 * t11 * W(1.5957691216057308));
        const W t33 = t14 * t11;
        return t8 * t11 * (t14 * ((t8 - t11) * (t14 * t19 + t26 + W(1)) + t8 * (t26 + W(1)) - t33) * W(1.5957691216057308) + x * (t19 * W(0.26829) + W(0.80487) - t33 * (x * W(0.53658) + t22 * t8 * W(1.5957691216057308)) * W(1.5957691216057308))) * W(1.5957691216057308);
    }
};

// Of elementwise.cu.

// x[0] = x
template <typename W> struct Relu {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = maximum(x[0], W(0));
    }
};

// x[0] = h, x[1] = out
template <typename W> struct ReluGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] <= W(0) ? W(0) : x[0];
    }
};

// x[0] = x
template <typename W> struct Sigmoid {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = reciprocal(exp(-x[0]) + W(1));
    }
};

// x[0] = h, x[1] = out
template <typename W> struct SigmoidGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * x[1] * (W(1) - x[1]);
    }
};

// x[0] = g, x[1] = h, x[2] = out
template <typename W> struct SigmoidGradGradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * x[2] * (W(1) - x[2]);
        y[1] = x[0] * x[1] * (W(1) - x[2] * W(2));
    }
};

// x[0] = x
template <typename W> struct Tanh {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = tanh(x[0]);
    }
};

// x[0] = h, x[1] = out
template <typename W> struct TanhGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (W(1) - x[1] * x[1]);
    }
};

// x[0] = g, x[1] = h, x[2] = out
template <typename W> struct TanhGradGradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (W(1) - x[2] * x[2]);
        y[1] = x[0] * x[1] * x[2] * W(-2);
    }
};

// x[0] = x
template <typename W> struct Silu {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = quotient(x[0], exp(-x[0]) + W(1));
    }
};

// x[0] = h, x[1] = x
template <typename W> struct SiluGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = exp(-x[1]);
        y[0] = quotient(x[0], t1 + W(1)) * (W(1) + quotient(x[1], reciprocal(t1) + W(1)));
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct SiluGradGradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = exp(-x[2]);
        const W t3 = reciprocal(t1 + W(1));
        const W t7 = reciprocal(reciprocal(t1) + W(1));
        y[0] = x[0] * t3 * (W(1) + x[2] * t7);
        y[1] = x[0] * x[1] * t3 * t7 * (x[2] * (t7 - t3) + W(2));
    }
};

// x[0] = x
// n0 = frequency
template <typename W> struct Sine {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = sinpi(half_turns(x[0] * n0));
    }
};

// x[0] = h, x[1] = x
// n0 = frequency
template <typename W> struct SineDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * cospi(half_turns(x[1] * n0)) * n0;
    }
};

// x[0] = g, x[1] = h, x[2] = x
// n0 = frequency, n1 = frequency * frequency
template <typename W> struct SineDerivative1Gradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t0 = x[2] * n0;
        y[0] = x[0] * cospi(half_turns(t0)) * n0;
        y[1] = -(x[0] * x[1] * sinpi(half_turns(t0)) * n1);
    }
};

// x[0] = x
template <typename W> struct Softsign {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] / (fabs(x[0]) + W(1));
    }
};

// x[0] = h, x[1] = x
template <typename W> struct SoftsignDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = fabs(x[1]) + W(1);
        y[0] = x[0] * (W(1) / (t1 * t1));
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct SoftsignDerivative1Gradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = fabs(x[2]) + W(1);
        const W t2 = t1 * t1;
        const W t3 = W(1) / t2;
        y[0] = x[0] * t3;
        y[1] = -(x[0] * x[1] * t3 * (sign(x[2]) * t1 * W(2) / t2));
    }
};

// x[0] = x
// n0 = alpha
template <typename W> struct Elu {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = maximum(x[0], W(0)) + expm1(minimum(x[0], W(0))) * n0;
    }
};

// x[0] = h, x[1] = x
// n0 = alpha
template <typename W> struct EluGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (x[1] > W(0) ? W(1) : exp(minimum(x[1], W(0))) * n0);
    }
};

// x[0] = g, x[1] = h, x[2] = x
// n0 = alpha
template <typename W> struct EluGradGradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (x[2] > W(0) ? W(1) : exp(minimum(x[2], W(0))) * n0);
        y[1] = x[2] >= W(0) ? W(0) : x[0] * x[1] * exp(x[2]) * n0;
    }
};

// x[0] = x
// n0 = 1 / alpha, n1 = alpha
template <typename W> struct Celu {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = maximum(x[0], W(0)) + expm1(minimum(x[0], W(0)) * n0) * n1;
    }
};

// x[0] = h, x[1] = x
// n0 = 1 / alpha
template <typename W> struct CeluGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (x[1] > W(0) ? W(1) : exp(minimum(x[1], W(0)) * n0));
    }
};

// x[0] = g, x[1] = h, x[2] = x
// n0 = 1 / alpha
template <typename W> struct CeluGradGradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (x[2] > W(0) ? W(1) : exp(minimum(x[2], W(0)) * n0));
        y[1] = x[2] >= W(0) ? W(0) : x[0] * x[1] * exp(x[2] * n0) * n0;
    }
};

// x[0] = x
template <typename W> struct Selu {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = (maximum(x[0], W(0)) + expm1(minimum(x[0], W(0))) * W(1.6732632423543772)) * W(1.0507009873554805);
    }
};

// x[0] = h, x[1] = x
template <typename W> struct SeluDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (x[1] > W(0) ? W(1) : exp(minimum(x[1], W(0))) * W(1.6732632423543772)) * W(1.0507009873554805);
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct SeluDerivative1Gradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (x[2] > W(0) ? W(1) : exp(minimum(x[2], W(0))) * W(1.6732632423543772)) * W(1.0507009873554805);
        y[1] = x[0] * x[1] * (x[2] >= W(0) ? W(0) : exp(x[2]) * W(1.6732632423543772)) * W(1.0507009873554805);
    }
};

// x[0] = x
// n0 = beta, n1 = threshold
template <typename W> struct Softplus {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t0 = x[0] * n0;
        y[0] = t0 > n1 ? x[0] : log1p(exp(t0)) / n0;
    }
};

// x[0] = h, x[1] = x
// n0 = beta, n1 = threshold
template <typename W> struct SoftplusGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t0 = x[1] * n0;
        y[0] = t0 > n1 ? x[0] : quotient(x[0], exp(-t0) + W(1));
    }
};

// x[0] = g, x[1] = h, x[2] = x
// n0 = beta, n1 = threshold
template <typename W> struct SoftplusGradGradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t0 = x[2] * n0;
        const bool t1 = t0 > n1;
        const W t3 = exp(-t0);
        const W t5 = reciprocal(t3 + W(1));
        y[0] = t1 ? x[0] : x[0] * t5;
        y[1] = t1 ? W(0) : quotient(x[0] * x[1] * t5, reciprocal(t3) + W(1)) * n0;
    }
};

// x[0] = x
template <typename W> struct Logsigmoid {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = minimum(x[0], W(0)) - log1p(exp(-fabs(x[0])));
    }
};

// x[0] = h, x[1] = x
template <typename W> struct LogsigmoidDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = quotient(x[0], exp(x[1]) + W(1));
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct LogsigmoidDerivative1Gradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = exp(-x[2]);
        const W t4 = reciprocal(reciprocal(t1) + W(1));
        y[0] = x[0] * t4;
        y[1] = -(quotient(x[0] * x[1], t1 + W(1)) * t4);
    }
};

// x[0] = x
template <typename W> struct Mish {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = exp(minimum(x[0], W(20)));
        const W t3 = t1 * (t1 + W(2));
        y[0] = x[0] * (t3 / (t3 + W(2)));
    }
};

// x[0] = h, x[1] = x
template <typename W> struct MishDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = exp(minimum(x[1], W(20)));
        const W t3 = t1 * (t1 + W(2));
        const W t4 = t3 + W(2);
        y[0] = x[0] * (t3 / t4 + (x[1] > W(20) ? W(0) : x[1] * t1 * (t1 * W(2) + W(2)) * (W(2) / (t4 * t4))));
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct MishDerivative1Gradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = exp(minimum(x[2], W(20)));
        const W t3 = t1 * (t1 + W(2));
        const W t4 = t3 + W(2);
        const bool t6 = x[2] > W(20);
        const W t7 = x[2] * t1;
        const W t9 = t1 * W(2) + W(2);
        const W t11 = t4 * t4;
        const W t12 = W(2) / t11;
        y[0] = x[0] * (t3 / t4 + (t6 ? W(0) : t7 * t9 * t12));
        y[1] = t6 ? W(0) : x[0] * x[1] * t12 * (t9 * (t1 * (W(2) - x[2] * (t1 * t9 * t4 * W(2) / t11)) + t7) + t7 * t1 * W(2));
    }
};

// x[0] = x
// n0 = negative_slope
template <typename W> struct LeakyRelu {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = maximum(x[0], x[0] * n0);
    }
};

// x[0] = h, x[1] = x
// n0 = negative_slope
template <typename W> struct LeakyReluGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] > W(0) ? x[0] : x[0] * n0;
    }
};

// x[0] = x
// n0 = min_val, n1 = max_val
template <typename W> struct Hardtanh {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = minimum(maximum(x[0], n0), n1);
    }
};

// x[0] = h, x[1] = x
// n0 = min_val, n1 = max_val
template <typename W> struct HardtanhDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] <= n0 || x[1] >= n1 ? W(0) : x[0];
    }
};

// x[0] = x
template <typename W> struct Hardsigmoid {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = (minimum(maximum(x[0], W(-3)), W(3)) + W(3)) * W(0.16666666666666666);
    }
};

// x[0] = h, x[1] = x
template <typename W> struct HardsigmoidDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] > W(-3) && x[1] < W(3) ? x[0] * W(0.16666666666666666) : W(0);
    }
};

// x[0] = x
template <typename W> struct Hardswish {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * ((minimum(maximum(x[0], W(-3)), W(3)) + W(3)) * W(0.16666666666666666));
    }
};

// x[0] = h, x[1] = x
template <typename W> struct HardswishDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] >= W(3) ? x[0] : (x[1] <= W(-3) ? W(0) : x[0] * (x[1] * W(0.3333333333333333) + W(0.5)));
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct HardswishDerivative1Gradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const bool t0 = x[2] >= W(3);
        const bool t1 = x[2] <= W(-3);
        y[0] = t0 ? x[0] : (t1 ? W(0) : x[0] * (x[2] * W(0.3333333333333333) + W(0.5)));
        y[1] = t0 ? W(0) : (t1 ? W(0) : x[0] * x[1] * W(0.3333333333333333));
    }
};

// x[0] = x
// n0 = lambd
template <typename W> struct Hardshrink {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = fabs(x[0]) <= n0 ? W(0) : x[0];
    }
};

// x[0] = h, x[1] = x
// n0 = lambd
template <typename W> struct HardshrinkDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = fabs(x[1]) <= n0 ? W(0) : x[0];
    }
};

// x[0] = x
// n0 = -lambd, n1 = lambd
template <typename W> struct Softshrink {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] - minimum(maximum(x[0], n0), n1);
    }
};

// x[0] = h, x[1] = x
// n0 = lambd
template <typename W> struct SoftshrinkDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = fabs(x[1]) <= n0 ? W(0) : x[0];
    }
};

// x[0] = x
// n0 = threshold, n1 = value
template <typename W> struct Threshold {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] <= n0 ? n1 : x[0];
    }
};

// x[0] = h, x[1] = x
// n0 = threshold
template <typename W> struct ThresholdDerivative1 {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] <= n0 ? W(0) : x[0];
    }
};

// x[0] = x
template <typename W> struct Gelu {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * normal_below(x[0]);
    }
};

// x[0] = h, x[1] = x
template <typename W> struct GeluGrad {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (normal_below(x[1]) + x[1] * exp(x[1] * x[1] * W(-0.5)) * W(0.3989422804014327));
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct GeluGradGradients {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = x[2] * x[2];
        const W t3 = exp(t1 * W(-0.5));
        y[0] = x[0] * (normal_below(x[2]) + x[2] * t3 * W(0.3989422804014327));
        y[1] = x[0] * x[1] * (W(2) - t1) * t3 * W(0.3989422804014327);
    }
};

// x[0] = x
template <typename W> struct GeluTanh {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = quotient(x[0], exp(-(x[0] * (x[0] * x[0] * W(0.044715) + W(1)) * W(1.5957691216057308))) + W(1));
    }
};

// x[0] = h, x[1] = x
template <typename W> struct GeluGradTanh {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t0 = x[1] * x[1];
        const W t6 = exp(-(x[1] * (t0 * W(0.044715) + W(1)) * W(-1.5957691216057308)));
        y[0] = quotient(x[0], reciprocal(t6) + W(1)) * (W(1) + quotient(x[1] * (t0 * W(0.134145) + W(1)), t6 + W(1)) * W(1.5957691216057308));
    }
};

// x[0] = g, x[1] = h, x[2] = x
template <typename W> struct GeluGradGradientsTanh {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t0 = x[2] * x[2];
        const W t6 = exp(-(x[2] * (t0 * W(0.044715) + W(1)) * W(-1.5957691216057308)));
        const W t9 = reciprocal(reciprocal(t6) + W(1));
        const W t12 = t0 * W(0.134145) + W(1);
        const W t15 = reciprocal(t6 + W(1));
        const W t18 = W(1) + x[2] * t12 * t15 * W(1.5957691216057308);
        y[0] = x[0] * t9 * t18;
        y[1] = x[0] * x[1] * t15 * t9 * (t12 * t18 + x[2] * (x[2] * W(0.402435) - t12 * t12 * t9 * W(1.5957691216057308)) + W(1)) * W(1.5957691216057308);
    }
};

// x[0] = x
// n0 = negative_slope
template <typename W> struct LeakyReluGentleFalse {
    static constexpr int INPUTS = 1, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] > W(0) ? x[0] : x[0] * n0;
    }
};

// x[0] = h, x[1] = x
// n0 = negative_slope
template <typename W> struct LeakyReluGradGentleFalse {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] > W(0) ? x[0] : x[0] * n0;
    }
};

// x[0] = weight, x[1] = b, x[2] = a
template <typename W> struct Lerp {
    static constexpr int INPUTS = 3, OUTPUTS = 1;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const bool t1 = fabs(x[0]) < W(0.5);
        y[0] = (t1 ? x[2] : x[1]) + (x[1] - x[2]) * (t1 ? x[0] : x[0] - W(1));
    }
};

// x[0] = weight, x[1] = g
template <typename W> struct LerpGradAB {
    static constexpr int INPUTS = 2, OUTPUTS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] * (W(1) - x[0]);
        y[1] = x[1] * x[0];
    }
};

// x[0] = b, x[1] = a
// n0 = weight
template <typename W> struct LerpWeightTrue {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[1] + (x[0] - x[1]) * n0;
    }
};

// x[0] = b, x[1] = a
// n0 = weight - 1
template <typename W> struct LerpWeightFalse {
    static constexpr int INPUTS = 2, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] + (x[0] - x[1]) * n0;
    }
};

// x[0] = g
// n0 = 1 - weight, n1 = weight
template <typename W> struct LerpGradABWeightTrue {
    static constexpr int INPUTS = 1, OUTPUTS = 2;
    W n0, n1;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * n0;
        y[1] = x[0] * n1;
    }
};

// x[0] = b, x[1] = a, x[2] = x
// n0 = value
template <typename W> struct Addcmul {
    static constexpr int INPUTS = 3, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[2] + x[1] * x[0] * n0;
    }
};

// x[0] = b, x[1] = a, x[2] = g
// n0 = value
template <typename W> struct AddcmulGradAB {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * x[2] * n0;
        y[1] = x[1] * x[2] * n0;
    }
};

// x[0] = b, x[1] = a, x[2] = x
// n0 = value
template <typename W> struct Addcdiv {
    static constexpr int INPUTS = 3, OUTPUTS = 1;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[2] + x[1] / x[0] * n0;
    }
};

// x[0] = b, x[1] = a, x[2] = g
// n0 = value
template <typename W> struct AddcdivGradAB {
    static constexpr int INPUTS = 3, OUTPUTS = 2;
    W n0;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t1 = x[2] * (W(1) / x[0]);
        y[0] = t1 * n0;
        y[1] = -(t1 * (x[1] / x[0]) * n0);
    }
};

// Of group.cu.

template <typename W> struct Group195cac8f9596 {
    static constexpr int INPUTS = 5, STRIDED = 2, SCALARS = 1, OUTPUTS = 3;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        y[0] = x[0] * (W(1) - x[2] * x[2]);
        y[1] = x[0] * x[1] * x[2] * W(-2) + x[3];
        y[2] = quotient(x[3], exp(-x[3]) + W(1)) * x[4] - maximum(x[1], W(0.5));
    }
};

// Of group_sums.cu.

template <typename W> struct Group734e9b161446 {
    static constexpr int INPUTS = 5, STRIDED = 2, SCALARS = 1, OUTPUTS = 4, SUMS = 2;
    W unused;
    __device__ void operator()(const W (&x)[INPUTS], W (&y)[OUTPUTS]) const {
        const W t6 = x[0] * x[1] * x[2] * W(-2) + x[3];
        y[0] = x[0] * (W(1) - x[2] * x[2]);
        y[1] = t6;
        y[2] = quotient(x[3], exp(-x[3]) + W(1)) * x[4] - maximum(x[1], W(0.5));
        y[3] = t6;
    }
};

// Of foreach.cu.

// x[0] = out, x[1] = a0
template <typename W> struct ForeachAbs_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = fabs(x[1]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachCos_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = cospi(half_turns(x[1]));
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachExp_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = exp(x[1]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachExpm1_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = expm1(x[1]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachLog_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = log(x[1]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachLog1p_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = log1p(x[1]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachNeg_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = -x[1];
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachReciprocal_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = W(1) / x[1];
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachRsqrt_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = W(1) / sqrt(x[1]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachSin_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = sinpi(half_turns(x[1]));
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachSqrt_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = sqrt(x[1]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
template <typename W> struct ForeachClone_l {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1];
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0, x[2] = a1
// n0 = a2
template <typename W> struct ForeachAdd_lln {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] + x[2] * n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0
// n0 = a1 * a2
template <typename W> struct ForeachAdd_lnn {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] + n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a1
// n0 = a0, n1 = a2
template <typename W> struct ForeachAdd_nln {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0, n1;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = n0 + x[1] * n1;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); }
};

// x[0] = out, x[1] = a0, x[2] = a1
// n0 = a2
template <typename W> struct ForeachSub_lln {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] - x[2] * n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0
// n0 = a1 * a2
template <typename W> struct ForeachSub_lnn {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] - n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a1
// n0 = a0, n1 = a2
template <typename W> struct ForeachSub_nln {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0, n1;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = n0 - x[1] * n1;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); }
};

// x[0] = out, x[1] = a0, x[2] = a1
template <typename W> struct ForeachMul_ll {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] * x[2];
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
// n0 = a1
template <typename W> struct ForeachMul_ln {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] * n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0, x[2] = a1
template <typename W> struct ForeachDiv_ll {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] / x[2];
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
// n0 = a1
template <typename W> struct ForeachDiv_ln {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] / n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a1
// n0 = a0
template <typename W> struct ForeachDiv_nl {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = n0 / x[1];
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0, x[2] = a1
template <typename W> struct ForeachMaximum_ll {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = maximum(x[1], x[2]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
// n0 = a1
template <typename W> struct ForeachMaximum_ln {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = maximum(x[1], n0);
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0, x[2] = a1
template <typename W> struct ForeachMinimum_ll {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = minimum(x[1], x[2]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a1
// n0 = a0
template <typename W> struct ForeachMinimum_nl {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = minimum(n0, x[1]);
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0
// n0 = a1, n1 = a2
template <typename W> struct ForeachClamp_lnn {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0, n1;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = minimum(maximum(x[1], n0), n1);
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); }
};

// x[0] = out, x[1] = a0
// n0 = a1
template <typename W> struct ForeachClamp_lno {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = maximum(x[1], n0);
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0, x[2] = a2
template <typename W> struct ForeachClamp_lol {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = minimum(x[1], x[2]);
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0
// n0 = a1
template <typename W> struct ForeachPow_ln {
    static constexpr int LISTS = 2, READS = 2, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = pow(x[1], n0);
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0, x[2] = a1
// n0 = abs(a2), n1 = a2, n2 = a2 - 1
template <typename W> struct ForeachLerp_lln {
    static constexpr int LISTS = 3, READS = 6, WRITES = 1;
    W n0, n1, n2;
    __device__ void operator()(W (&x)[LISTS]) const {
        const bool t0 = n0 < W(0.5);
        x[0] = (t0 ? x[1] : x[2]) + (x[2] - x[1]) * (t0 ? n1 : n2);
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); }
};

// x[0] = out, x[1] = a0, x[2] = a1, x[3] = a2
template <typename W> struct ForeachLerp_lll {
    static constexpr int LISTS = 4, READS = 14, WRITES = 1;
    W unused;
    __device__ void operator()(W (&x)[LISTS]) const {
        const bool t1 = fabs(x[3]) < W(0.5);
        x[0] = (t1 ? x[1] : x[2]) + (x[2] - x[1]) * (t1 ? x[3] : x[3] - W(1));
    }
    __device__ void renew(const double* live) { }
};

// x[0] = out, x[1] = a0, x[2] = a1, x[3] = a2
// n0 = a3
template <typename W> struct ForeachAddcmul_llln {
    static constexpr int LISTS = 4, READS = 14, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] + x[2] * x[3] * n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = out, x[1] = a0, x[2] = a1, x[3] = a2
// n0 = a3
template <typename W> struct ForeachAddcdiv_llln {
    static constexpr int LISTS = 4, READS = 14, WRITES = 1;
    W n0;
    __device__ void operator()(W (&x)[LISTS]) const {
        x[0] = x[1] + x[2] / x[3] * n0;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); }
};

// x[0] = p, x[1] = g
// n0 = lr, n1 = decay, n2 = sign
template <typename W> struct SgdStep {
    static constexpr int LISTS = 2, READS = 3, WRITES = 1;
    W n0, n1, n2;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t1 = n2 * x[1];
        x[0] = x[0] - n0 * (n1 == W(0) ? t1 : t1 + n1 * x[0]);
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); }
};

// x[0] = p, x[1] = momentum_buffer, x[2] = g
// n0 = lr, n1 = nesterov, n2 = kept, n3 = damped, n4 = decay, n5 = sign, n6 = momentum
template <typename W> struct SgdMomentumBufferStep {
    static constexpr int LISTS = 3, READS = 7, WRITES = 3;
    W n0, n1, n2, n3, n4, n5, n6;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t3 = n5 * x[2];
        const W t6 = n4 == W(0) ? t3 : t3 + n4 * x[0];
        const W t8 = n2 * x[1] + n3 * t6;
        const W y0 = x[0] - n0 * (n1 == W(0) ? t8 : t6 + n6 * t8);
        const W y1 = t8;
        x[0] = y0;
        x[1] = y1;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); }
};

// x[0] = p, x[1] = exp_avg, x[2] = exp_avg_sq, x[3] = g
// n0 = keep, n1 = rate, n2 = beta1, n3 = 1 - beta1, n4 = decay, n5 = sign, n6 = beta2, n7 = 1 - beta2, n8 = eps
template <typename W> struct AdamStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4, n5, n6, n7, n8;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t3 = n5 * x[3];
        const W t6 = n4 == W(0) ? t3 : t3 + n4 * x[0];
        const W t8 = n2 * x[1] + n3 * t6;
        const W t13 = n6 * x[2] + n7 * t6 * t6;
        const W y0 = n0 * x[0] - n1 * t8 / (sqrt(t13) + n8);
        const W y1 = t8;
        const W y2 = t13;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); n7 = W(live[7]); n8 = W(live[8]); }
};

// x[0] = p, x[1] = exp_avg, x[2] = exp_avg_sq, x[3] = max_exp_avg_sq, x[4] = g
// n0 = keep, n1 = rate, n2 = beta1, n3 = 1 - beta1, n4 = decay, n5 = sign, n6 = beta2, n7 = 1 - beta2, n8 = eps
template <typename W> struct AdamMaxExpAvgSqStep {
    static constexpr int LISTS = 5, READS = 31, WRITES = 15;
    W n0, n1, n2, n3, n4, n5, n6, n7, n8;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t3 = n5 * x[4];
        const W t6 = n4 == W(0) ? t3 : t3 + n4 * x[0];
        const W t8 = n2 * x[1] + n3 * t6;
        const W t13 = n6 * x[2] + n7 * t6 * t6;
        const W t14 = maximum(x[3], t13);
        const W y0 = n0 * x[0] - n1 * t8 / (sqrt(t14) + n8);
        const W y1 = t8;
        const W y2 = t13;
        const W y3 = t14;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
        x[3] = y3;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); n7 = W(live[7]); n8 = W(live[8]); }
};

// x[0] = p, x[1] = exp_avg, x[2] = exp_avg_sq, x[3] = g
// n0 = keep, n1 = rate, n2 = beta1, n3 = 1 - beta1, n4 = decay, n5 = sign, n6 = rate_now, n7 = beta2, n8 = 1 - beta2, n9 = eps
template <typename W> struct NadamStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4, n5, n6, n7, n8, n9;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t3 = n5 * x[3];
        const W t6 = n4 == W(0) ? t3 : t3 + n4 * x[0];
        const W t8 = n2 * x[1] + n3 * t6;
        const W t15 = n7 * x[2] + n8 * t6 * t6;
        const W y0 = n0 * x[0] - (n1 * t8 + n6 * t6) / (sqrt(t15) + n9);
        const W y1 = t8;
        const W y2 = t15;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); n7 = W(live[7]); n8 = W(live[8]); n9 = W(live[9]); }
};

// x[0] = p, x[1] = exp_avg, x[2] = exp_avg_sq, x[3] = g
// n0 = keep, n1 = rate, n2 = beta1, n3 = 1 - beta1, n4 = decay, n5 = sign, n6 = adaptive, n7 = beta2, n8 = 1 - beta2, n9 = eps
template <typename W> struct RadamStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4, n5, n6, n7, n8, n9;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t3 = n5 * x[3];
        const W t6 = n4 == W(0) ? t3 : t3 + n4 * x[0];
        const W t8 = n2 * x[1] + n3 * t6;
        const W t14 = n7 * x[2] + n8 * t6 * t6;
        const W y0 = n0 * x[0] - n1 * t8 / (n6 == W(0) ? W(1) : sqrt(t14) + n9);
        const W y1 = t8;
        const W y2 = t14;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); n7 = W(live[7]); n8 = W(live[8]); n9 = W(live[9]); }
};

// x[0] = p, x[1] = exp_avg, x[2] = exp_inf, x[3] = g
// n0 = rate, n1 = beta1, n2 = 1 - beta1, n3 = decay, n4 = sign, n5 = beta2, n6 = eps
template <typename W> struct AdamaxStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4, n5, n6;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t2 = n4 * x[3];
        const W t5 = n3 == W(0) ? t2 : t2 + n3 * x[0];
        const W t7 = n1 * x[1] + n2 * t5;
        const W t12 = maximum(n5 * x[2], fabs(t5) + n6);
        const W y0 = x[0] - n0 * t7 / t12;
        const W y1 = t7;
        const W y2 = t12;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); }
};

// x[0] = p, x[1] = square_avg, x[2] = g
// n0 = lr, n1 = decay, n2 = sign, n3 = alpha, n4 = 1 - alpha, n5 = eps
template <typename W> struct RmspropStep {
    static constexpr int LISTS = 3, READS = 7, WRITES = 3;
    W n0, n1, n2, n3, n4, n5;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t1 = n2 * x[2];
        const W t4 = n1 == W(0) ? t1 : t1 + n1 * x[0];
        const W t8 = n3 * x[1] + n4 * t4 * t4;
        const W y0 = x[0] - n0 * (t4 / (sqrt(t8) + n5));
        const W y1 = t8;
        x[0] = y0;
        x[1] = y1;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); }
};

// x[0] = p, x[1] = square_avg, x[2] = momentum_buffer, x[3] = g
// n0 = lr, n1 = momentum, n2 = decay, n3 = sign, n4 = alpha, n5 = 1 - alpha, n6 = eps
template <typename W> struct RmspropMomentumBufferStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4, n5, n6;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t2 = n3 * x[3];
        const W t5 = n2 == W(0) ? t2 : t2 + n2 * x[0];
        const W t9 = n4 * x[1] + n5 * t5 * t5;
        const W t13 = n1 * x[2] + t5 / (sqrt(t9) + n6);
        const W y0 = x[0] - n0 * t13;
        const W y1 = t9;
        const W y2 = t13;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); }
};

// x[0] = p, x[1] = square_avg, x[2] = grad_avg, x[3] = g
// n0 = lr, n1 = decay, n2 = sign, n3 = alpha, n4 = 1 - alpha, n5 = eps
template <typename W> struct RmspropGradAvgStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4, n5;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t1 = n2 * x[3];
        const W t4 = n1 == W(0) ? t1 : t1 + n1 * x[0];
        const W t6 = n4 * t4;
        const W t8 = n3 * x[1] + t6 * t4;
        const W t10 = n3 * x[2] + t6;
        const W y0 = x[0] - n0 * (t4 / (sqrt(t8 - t10 * t10) + n5));
        const W y1 = t8;
        const W y2 = t10;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); }
};

// x[0] = p, x[1] = square_avg, x[2] = momentum_buffer, x[3] = grad_avg, x[4] = g
// n0 = lr, n1 = momentum, n2 = decay, n3 = sign, n4 = alpha, n5 = 1 - alpha, n6 = eps
template <typename W> struct RmspropMomentumBufferGradAvgStep {
    static constexpr int LISTS = 5, READS = 31, WRITES = 15;
    W n0, n1, n2, n3, n4, n5, n6;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t2 = n3 * x[4];
        const W t5 = n2 == W(0) ? t2 : t2 + n2 * x[0];
        const W t7 = n5 * t5;
        const W t9 = n4 * x[1] + t7 * t5;
        const W t11 = n4 * x[3] + t7;
        const W t17 = n1 * x[2] + t5 / (sqrt(t9 - t11 * t11) + n6);
        const W y0 = x[0] - n0 * t17;
        const W y1 = t9;
        const W y2 = t11;
        const W y3 = t17;
        x[0] = y0;
        x[1] = y1;
        x[3] = y2;
        x[2] = y3;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); n6 = W(live[6]); }
};

// x[0] = p, x[1] = sum, x[2] = g
// n0 = lr, n1 = decay, n2 = sign, n3 = eps
template <typename W> struct AdagradStep {
    static constexpr int LISTS = 3, READS = 7, WRITES = 3;
    W n0, n1, n2, n3;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t1 = n2 * x[2];
        const W t4 = n1 == W(0) ? t1 : t1 + n1 * x[0];
        const W t7 = x[1] + t4 * t4;
        const W y0 = x[0] - n0 * t4 / (sqrt(t7) + n3);
        const W y1 = t7;
        x[0] = y0;
        x[1] = y1;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); }
};

// x[0] = p, x[1] = square_avg, x[2] = acc_delta, x[3] = g
// n0 = lr, n1 = eps, n2 = rho, n3 = 1 - rho, n4 = decay, n5 = sign
template <typename W> struct AdadeltaStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4, n5;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t3 = n5 * x[3];
        const W t6 = n4 == W(0) ? t3 : t3 + n4 * x[0];
        const W t9 = n2 * x[1] + n3 * t6 * t6;
        const W t13 = sqrt((x[2] + n1) / (t9 + n1)) * t6;
        const W y0 = x[0] - n0 * t13;
        const W y1 = t9;
        const W y2 = n2 * x[2] + n3 * t13 * t13;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); n5 = W(live[5]); }
};

// x[0] = p, x[1] = ax, x[2] = g
// n0 = keep, n1 = rate, n2 = sign, n3 = mu, n4 = 1 - mu
template <typename W> struct AsgdStep {
    static constexpr int LISTS = 3, READS = 7, WRITES = 3;
    W n0, n1, n2, n3, n4;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t3 = n0 * x[0] - n1 * (n2 * x[2]);
        const W y0 = t3;
        const W y1 = n3 == W(1) ? t3 : n4 * x[1] + n3 * t3;
        x[0] = y0;
        x[1] = y1;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); }
};

// x[0] = p, x[1] = prev, x[2] = step_size, x[3] = g
// n0 = sign, n1 = shrink, n2 = grow, n3 = smallest, n4 = largest
template <typename W> struct RpropStep {
    static constexpr int LISTS = 4, READS = 15, WRITES = 7;
    W n0, n1, n2, n3, n4;
    __device__ void operator()(W (&x)[LISTS]) const {
        const W t0 = n0 * x[3];
        const W t1 = t0 * x[1];
        const bool t2 = t1 < W(0);
        const W t3 = t2 ? W(0) : t0;
        const W t10 = minimum(maximum(x[2] * (t2 ? n1 : (t1 > W(0) ? n2 : W(1))), n3), n4);
        const W y0 = x[0] - (t3 > W(0) ? t10 : (t3 < W(0) ? -t10 : W(0)));
        const W y1 = t3;
        const W y2 = t10;
        x[0] = y0;
        x[1] = y1;
        x[2] = y2;
    }
    __device__ void renew(const double* live) { n0 = W(live[0]); n1 = W(live[1]); n2 = W(live[2]); n3 = W(live[3]); n4 = W(live[4]); }
};
