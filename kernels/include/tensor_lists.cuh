// How kernels over lists of arrays of any sizes divide them.
//
// 1. Several lists have as many arrays each; the arrays `t` of all lists have the same size and are processed together.
// 2. A block processes one chunk of CHUNK elements, the last chunk of an array being shorter. It finds its array among
//    the first blocks of all, by bisection.
// 3. Its threads load strips of 16 bytes if all arrays `t` are aligned, and the rest, or all, by element.
// 4. The addresses are passed by value, so that a launch copies nothing to the device, and can be captured in a graph. A
//    kernel declares them as `const __grid_constant__ Lists<T, LISTS>`: any other struct that is indexed at run time is
//    copied to local memory.
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

// As backend/kernels/array_lists.py packs them.
template <typename T, int LISTS> struct Lists {
    static constexpr int MOST = MOST_ARRAYS[LISTS];
    T* at[LISTS][MOST];
    int first[MOST + 1];        // the first block of each array; from the last array on, the number of blocks
    unsigned short last[MOST];  // elements of the last chunk
};

// One block's chunk of the arrays of LISTS lists.
template <typename T, int LISTS> struct Chunk {
    static constexpr int WIDTH = 16 / sizeof(T), MOST = Lists<T, LISTS>::MOST;
    T* at[LISTS];
    int size, aligned;  // elements; how many of them by strips

    __device__ Chunk(const Lists<T, LISTS>& lists) {
        const int block = blockIdx.x;
        int tensor = 0;  // the last one whose first block is not behind this one
#pragma unroll
        for (int step = 512; step; step /= 2)
            if (tensor + step < MOST && lists.first[tensor + step] <= block) tensor += step;
        const long long begin = static_cast<long long>(CHUNK) * (block - lists.first[tensor]);
        size = block + 1 < lists.first[tensor + 1] ? CHUNK : lists.last[tensor];
        unsigned long long places = 0;
#pragma unroll
        for (int a = 0; a < LISTS; ++a) {
            at[a] = lists.at[a][tensor] + begin;
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
