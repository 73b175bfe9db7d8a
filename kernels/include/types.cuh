// The floating types that kernels are instantiated for: float, double, __half, __nv_bfloat16.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The type in which T is computed and accumulated; a result is rounded to T once.
template <typename T> struct WideOf { using type = float; };
template <> struct WideOf<double> { using type = double; };
template <typename T> using Wide = typename WideOf<T>::type;

template <typename T> __device__ Wide<T> widen(T value) { return static_cast<Wide<T>>(value); }

// The word of so many bytes.
template <int BYTES> struct Word;
template <> struct Word<1> { using type = unsigned char; };
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<8> { using type = unsigned long long; };
template <> struct Word<16> { using type = uint4; };

// N adjacent elements that are loaded and stored together: up to 16 bytes are one instruction.
template <typename T, int N> struct alignas(N * sizeof(T)) Strip {
    T at[N];

    static __device__ Strip load(const T* from) { return *reinterpret_cast<const Strip*>(from); }

    // Explicitly as a word: the compiler may store the elements of an aligned struct one by one, which multiplies the
    // transactions of the L2 cache.
    __device__ void store(T* to) const {
        typename Word<N * sizeof(T)>::type word;
        memcpy(&word, this, sizeof(word));
        __stwb(reinterpret_cast<decltype(word)*>(to), word);
    }
};
