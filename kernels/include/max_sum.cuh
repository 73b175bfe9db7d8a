// The maximum of a row and the sum of the exponentials relative to it, in one pass.
//
// 1. A thread keeps its maximum so far and the sum of exp(x - maximum). A larger value scales the sum down (Milakov and
//    Gimelshein 2018), once per iteration.
// 2. The threads of a row reduce to the common maximum, scale their sums to it, and add them.
// 3. While all values are -inf nothing is subtracted, and exp gives the correct zeros. A NaN makes the sum NaN, and so
//    does inf, by inf - inf.
#pragma once
#include "rows.cuh"

// exp(x), to a relative 2^-17 for a half type: one multiplication and one instruction, of a dozen. Without it instructions
// bound kernels of half types, not memory.
template <typename T> __device__ Wide<T> exp_for(Wide<T> x) {
    if constexpr (sizeof(T) == 2) return exp2f(x * 1.44269504088896340736f);
    else return exp(x);
}

template <typename W> struct MaxSum {
    W max, sum;

    static __device__ float lowest(float) { return __int_as_float(0xff800000); }
    static __device__ double lowest(double) { return __longlong_as_double(0xfff0000000000000ll); }
    static __device__ MaxSum none() { return {lowest(W()), 0}; }

    // The value to subtract from x before exp.
    __device__ W shift() const { return max == lowest(W()) ? 0 : max; }

    // The strips that `share` loaded from column `from` on.
    template <int WIDTH, int DEPTH, typename T>
    __device__ void add(const Strip<T, WIDTH> (&strips)[DEPTH], const RowShare<WIDTH>& share, long long from) {
        const W before = max;
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            if (share.has(from, d))
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) max = Larger()(max, widen(strips[d].at[i]));
        sum *= exp(before - shift());
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            W part = 0;
            if (share.has(from, d))
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) part += exp_for<T>(widen(strips[d].at[i]) - shift());
            sum += part;
        }
    }

    __device__ void add(const MaxSum& other) {
        const W before = max;
        max = Larger()(max, other.max);
        sum = sum * exp(before - shift()) + other.sum * exp(other.max - shift());
    }

    // Merges the results of the parts of a row, two numbers each; the threads of the row divide them.
    __device__ void add_parts(const W* found, unsigned parts) {
#pragma unroll 1
        for (unsigned part = threadIdx.x; part < parts; part += blockDim.x) add({found[2 * part], found[2 * part + 1]});
    }

    // The result over all threads of the row, in every thread.
    __device__ void join_row() {
        const W before = max;
        max = joined(max, blockDim.x, Larger());
        sum = sum_for_row(sum * exp(before - shift()));
    }
};
