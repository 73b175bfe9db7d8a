// The floating types that kernels are instantiated for: float, double, __half, __nv_bfloat16.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The type in which T is computed and accumulated; a result is rounded to T once.
template <typename T> struct WideOf { using type = float; };
template <> struct WideOf<double> { using type = double; };
template <typename T> using Wide = typename WideOf<T>::type;

template <typename T> __device__ Wide<T> widen(T value) { return static_cast<Wide<T>>(value); }

// N adjacent elements that are loaded and stored together: 16 bytes are one instruction.
template <typename T, int N> struct alignas(N * sizeof(T)) Strip {
    T at[N];

    static __device__ Strip load(const T* from) { return *reinterpret_cast<const Strip*>(from); }
    __device__ void store(T* to) const { *reinterpret_cast<Strip*>(to) = *this; }
};
