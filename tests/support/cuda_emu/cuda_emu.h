// CUDA C++ for a C++ compiler: included in front of every kernel file.
#pragma once

#define CUDA_EMU 1

#include "intrinsics.h"     // before CUDA's headers: state.h brings the qualifiers

#include <vector_functions.h>

#include <utility>

static const uint3& threadIdx = emu::state.thread_index;
static const uint3& blockIdx = emu::state.block_index;
static const dim3& blockDim = emu::state.block;
static const dim3& gridDim = emu::state.grid;
constexpr int warpSize = emu::warp_size;

// The table of kernels. It follows the source, as emu_kernels and emu_kernel_count, and the compiler
// fills it in, so nothing about a signature is ever guessed from the text.
namespace emu {

enum Kind : int { scalar, read, write, table, structure };

template <class T> constexpr bool is_half = one_of<T, __half, __half2, __nv_bfloat16, __nv_bfloat162>;

template <class T> constexpr int kind_of() {
    if constexpr (std::is_pointer_v<T>) {
        using Pointee = std::remove_pointer_t<T>;
        static_assert(!std::is_pointer_v<Pointee> || std::is_const_v<Pointee>,
                      "a table of arrays is a parameter of type T* const*");
        return std::is_pointer_v<Pointee> ? table : std::is_const_v<Pointee> ? read : write;
    }
    return std::is_class_v<T> && !is_half<T> ? structure : scalar;
}

template <class T, class = void> struct Element { using type = T; };
template <class T> struct Element<T, std::void_t<decltype(T::x)>> { using type = decltype(T::x); };     // float4, ...

template <class T> constexpr bool is_floating() {
    if constexpr (std::is_pointer_v<T>) return is_floating<std::remove_cv_t<std::remove_pointer_t<T>>>();
    else if constexpr (std::is_void_v<T>) return false;
    else if constexpr (is_half<T>) return true;
    else return std::is_floating_point_v<typename Element<T>::type>;
}

template <auto function> struct Kernel;
template <class... P, void (*function)(P...)> struct Kernel<function> {
    // Every argument is read from its own address, as cuLaunchKernel does.
    template <size_t... i> static void call(void** arguments, std::index_sequence<i...>) {
        function(load<P>(arguments[i])...);
    }
    static void run(void** arguments) { call(arguments, std::index_sequence_for<P...>()); }
    static constexpr int count = sizeof...(P);
    static constexpr int kind[] = {kind_of<P>()..., 0};
    static constexpr int size[] = {int(sizeof(P))..., 0};
    static constexpr int floating[] = {is_floating<P>()..., 0};
};

template <auto function> constexpr Entry entry(const char* name, int max_threads) {
    using K = Kernel<function>;
    return {name, K::run, max_threads, K::count, K::kind, K::size, K::floating};
}

}  // namespace emu
