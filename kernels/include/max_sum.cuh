// The largest number of a row and the sum of the exponentials of the others below it, from one read of the row.
//
// 1. A thread keeps its largest number so far, and the sum of exp(x - largest). A larger number scales the sum down
//    (Milakov and Gimelshein 2018), once per turn.
// 2. The threads of a row agree on the largest, scale their sums down to it, and add them up.
// 3. While nothing but -inf was seen there is nothing to subtract, and exp gives the zeros that are right. A NaN makes
//    the sum NaN, and so does inf, by inf - inf.
#pragma once
#include "rows.cuh"

struct Plus {
    template <typename W> __device__ W operator()(W a, W b) const { return a + b; }
};

struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
    __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

// What `join` makes of the numbers of `count` neighbouring threads, a power of two, for all of them. Every thread of the
// block must call it. The order depends on `count` alone.
template <typename W, typename Join> __device__ W joined(W value, unsigned count, Join join) {
    __shared__ W shared[THREADS / 32];
    // Each pair of lanes makes the same of the same two numbers, so that all lanes have the same bits in the end.
    for (unsigned half = min(count, 32u) / 2; half > 0; half /= 2)
        value = join(value, __shfl_xor_sync(0xffffffff, value, half));
    if (count <= 32) return value;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, warp = thread / 32, warps = count / 32;
    __syncthreads();  // until the sums of an earlier call were read
    if (thread % 32 == 0) shared[warp] = value;
    __syncthreads();
    const unsigned first = warp / warps * warps;
    value = shared[first];
    for (unsigned other = first + 1; other < first + warps; ++other) value = join(value, shared[other]);
    return value;
}

template <typename W> struct MaxSum {
    W max, sum;

    static __device__ float lowest(float) { return __int_as_float(0xff800000); }
    static __device__ double lowest(double) { return __longlong_as_double(0xfff0000000000000ll); }
    static __device__ MaxSum none() { return {lowest(W()), 0}; }

    // What is subtracted from x before exp.
    __device__ W shift() const { return max == lowest(W()) ? 0 : max; }

    // The strips that `share` loaded from column `from` on.
    template <int WIDTH, int DEPTH, typename T>
    __device__ void add(const Strip<T, WIDTH> (&strips)[DEPTH], const RowShare<WIDTH>& share, long long from) {
        const W before = max;
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            if (from + d * share.step < share.cols)
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) max = Larger()(max, widen(strips[d].at[i]));
        sum *= exp(before - shift());
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            W part = 0;
            if (from + d * share.step < share.cols)
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) part += exp(widen(strips[d].at[i]) - shift());
            sum += part;
        }
    }

    __device__ void add(const MaxSum& other) {
        const W before = max;
        max = Larger()(max, other.max);
        sum = sum * exp(before - shift()) + other.sum * exp(other.max - shift());
    }

    // Those of all `count` neighbouring threads, for all of them.
    __device__ void join(unsigned count) {
        const W before = max;
        max = joined(max, count, Larger());
        sum = joined(sum * exp(before - shift()), count, Plus());
    }
};
