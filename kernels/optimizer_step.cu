// Optimizer steps for all parameters of one dtype: the lists are parameters, state, and gradients.
//
// In a CUDA graph `live` holds the numbers, in the order of the other parameters, since those would be the same at
// every replay; else it is null. Behind them it has a number that is not 0 where the step is to be skipped.
#include "include/tensor_lists.cuh"

// Without weight decay an infinite parameter must not affect its gradient.
template <typename W> __device__ W decayed(W g, W decay, W p) { return decay == 0 ? g : g + decay * p; }

// b = momentum b + damped (g + decay p), at the `first` step b = g + decay p; p -= lr b, or with nesterov
// p -= lr (g + decay p + momentum b). Without a buffer b is g + decay p. sign is -1 to maximize, else 1.
template <typename W, bool BUFFER> struct Sgd {
    static constexpr int LISTS = BUFFER ? 3 : 2;  // p, b, g
    static constexpr unsigned READS = BUFFER ? 7 : 3, WRITES = BUFFER ? 3 : 1;
    W sign, lr, decay, momentum, damped;
    int nesterov, first;

    __device__ void operator()(W (&x)[LISTS]) const {
        W step = decayed(sign * x[LISTS - 1], decay, x[0]);
        if constexpr (BUFFER) {
            const W g = step;
            step = x[1] = first ? g : momentum * x[1] + damped * g;
            if (nesterov) step = g + momentum * step;
        }
        x[0] -= lr * step;
    }
};

template <typename T, bool BUFFER>
__global__ void __launch_bounds__(THREADS)
sgd_step(const __grid_constant__ Lists<T, BUFFER ? 3 : 2> lists, Wide<T> sign, Wide<T> lr, Wide<T> decay,
         Wide<T> momentum, Wide<T> damped, int nesterov, int first, const double* live) {
    using W = Wide<T>;
    Sgd<W, BUFFER> step{sign, lr, decay, momentum, damped, nesterov, first};
    if (live) {
        if (W(live[7]) != 0) return;
        step = {W(live[0]), W(live[1]), W(live[2]), W(live[3]), W(live[4]), W(live[5]) != 0, W(live[6]) != 0};
    }
    Chunk(lists).each(step);
}

// m and v average g and g^2, top is the maximum of v so far; p = keep p - rate m / (sqrt(v or top) + eps). fresh1 and
// fresh2 are 1 - beta1 and 1 - beta2, computed on the host, since the difference in float would lose digits.
template <typename W, bool AMSGRAD> struct Adam {
    static constexpr int LISTS = AMSGRAD ? 5 : 4;  // p, m, v, top, g
    static constexpr unsigned READS = AMSGRAD ? 31 : 15, WRITES = AMSGRAD ? 15 : 7;
    W sign, decay, keep, beta1, fresh1, beta2, fresh2, rate, eps;

    __device__ void operator()(W (&x)[LISTS]) const {
        const W g = decayed(sign * x[LISTS - 1], decay, x[0]);
        x[1] = beta1 * x[1] + fresh1 * g;
        x[2] = beta2 * x[2] + fresh2 * g * g;
        W square = x[2];
        if constexpr (AMSGRAD) {
            if (square > x[3] || square != square) x[3] = square;
            square = x[3];
        }
        x[0] = keep * x[0] - rate * (x[1] / (sqrt(square) + eps));
    }
};

template <typename T, bool AMSGRAD>
__global__ void __launch_bounds__(THREADS)
adam_step(const __grid_constant__ Lists<T, AMSGRAD ? 5 : 4> lists, Wide<T> sign, Wide<T> decay, Wide<T> keep,
          Wide<T> beta1, Wide<T> fresh1, Wide<T> beta2, Wide<T> fresh2, Wide<T> rate, Wide<T> eps,
          const double* live) {
    using W = Wide<T>;
    Adam<W, AMSGRAD> step{sign, decay, keep, beta1, fresh1, beta2, fresh2, rate, eps};
    if (live) {
        if (W(live[9]) != 0) return;
        step = {W(live[0]), W(live[1]), W(live[2]), W(live[3]), W(live[4]), W(live[5]), W(live[6]), W(live[7]),
                W(live[8])};
    }
    Chunk(lists).each(step);
}
