// How kernels over lists of arrays of any sizes divide them.
//
// 1. The kernel gets lists of `tensors` arrays each: array `t` of list `a` starts at arrays[a * tensors + t]; the
//    arrays `t` of all lists have sizes[t] elements and are processed together.
// 2. A block processes one chunk of CHUNK elements: chunks[2 * blockIdx.x] is t, the next number is the chunk's index.
// 3. Its threads load strips of 16 bytes if all arrays `t` are aligned, and the rest, or all, by element.
// 4. All three tables are in device memory. Passed by value they would be indexed at run time, which copies a parameter
//    to local memory; and 4 KB of parameters are full at a hundred tensors of Adam.
#pragma once
#include "types.cuh"

// Loads and stores a strip. For 16 bytes explicitly, since the compiler may move the elements of an aligned Strip one
// by one.
template <typename T, int N> __device__ Strip<T, N> load_strip(const T* from) {
    if constexpr (N == 1) return Strip<T, 1>::load(from);
    Strip<T, N> strip;
    const uint4 bytes = __ldca(reinterpret_cast<const uint4*>(from));
    memcpy(&strip, &bytes, 16);
    return strip;
}
template <typename T, int N> __device__ void store_strip(const Strip<T, N>& strip, T* to) {
    if constexpr (N == 1) return strip.store(to);
    uint4 bytes;
    memcpy(&bytes, &strip, 16);
    __stwb(reinterpret_cast<uint4*>(to), bytes);
}

// One block's chunk of the arrays of LISTS lists.
template <typename T, int LISTS> struct Chunk {
    static constexpr int WIDTH = 16 / sizeof(T);
    T* at[LISTS];
    int size, aligned;  // elements; how many of them by strips

    __device__ Chunk(T* const* arrays, const long long* sizes, const int* chunks, int tensors) {
        const int tensor = chunks[2 * blockIdx.x];
        const long long begin = static_cast<long long>(CHUNK) * chunks[2 * blockIdx.x + 1];
        const long long left = sizes[tensor] - begin;
        unsigned long long places = 0;
        size = static_cast<int>(left < CHUNK ? left : CHUNK);
#pragma unroll
        for (int a = 0; a < LISTS; ++a) {
            at[a] = arrays[static_cast<long long>(a) * tensors + tensor] + begin;
#ifndef CUDA_EMU
            __builtin_assume(__isGlobal(at[a]));  // of an address out of memory the compiler does not know that
#endif
            places |= reinterpret_cast<unsigned long long>(at[a]);
        }
        aligned = places % 16 ? 0 : size / WIDTH * WIDTH;
    }

    // Calls op(x) for every element, where x holds the LISTS elements at that index. Bit a of Op::READS and Op::WRITES
    // says whether list a is read and written; arrays with the same address are read before they are written.
    template <typename Op> __device__ void each(const Op& op) const {
        walk<WIDTH>(op, 0, aligned);
        walk<1>(op, aligned, size);
    }

private:
    template <int STEP, typename Op> __device__ void walk(const Op& op, int from, int to) const {
#pragma unroll(Op::WRITES ? 1 : 4)  // loads in flight, where no store stands between them
        for (int i = from + STEP * threadIdx.x; i < to; i += STEP * THREADS) {
            Strip<T, STEP> strips[LISTS] = {};
#pragma unroll
            for (int a = 0; a < LISTS; ++a)
                if (Op::READS >> a & 1) strips[a] = load_strip<T, STEP>(at[a] + i);
#pragma unroll
            for (int s = 0; s < STEP; ++s) {
                Wide<T> x[LISTS];
#pragma unroll
                for (int a = 0; a < LISTS; ++a) x[a] = widen(strips[a].at[s]);
                op(x);
#pragma unroll
                for (int a = 0; a < LISTS; ++a)
                    if (Op::WRITES >> a & 1) strips[a].at[s] = static_cast<T>(x[a]);
            }
#pragma unroll
            for (int a = 0; a < LISTS; ++a)
                if (Op::WRITES >> a & 1) store_strip(strips[a], at[a] + i);
        }
    }
};
