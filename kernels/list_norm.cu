// The norm of all elements of a list of arrays, and scaling to a maximum norm.
#include "include/join.cuh"
#include "include/tensor_lists.cuh"

// The operations of a norm: combine two partial results, map an element, finish the result.
template <typename W> struct L1 {
    static __device__ W term(W x) { return fabs(x); }
    __device__ W operator()(W a, W b) const { return a + b; }
    static __device__ W norm(W total) { return total; }
};
template <typename W> struct L2 : L1<W> {
    static __device__ W term(W x) { return x * x; }
    static __device__ W norm(W total) { return sqrt(total); }
};
template <typename W> struct Largest : L1<W> {
    __device__ W operator()(W a, W b) const { return a > b || a != a ? a : b; }
};

template <template <typename> class Norm, typename W> struct Sum {
    static constexpr unsigned READS = 1, WRITES = 0;
    W& total;
    __device__ void operator()(W (&x)[1]) const { total = Norm<W>()(total, Norm<W>::term(x[0])); }
};

// partials[block] = the partial result of the block's chunk, before the root.
template <template <typename> class Norm, typename T>
__global__ void __launch_bounds__(THREADS)
list_norm(const __grid_constant__ Lists<T, 1> lists, Wide<T>* partials) {
    Wide<T> own = 0;
    Chunk(lists).each(Sum<Norm, Wide<T>>{own});
    own = joined(own, THREADS, Norm<Wide<T>>());
    if (threadIdx.x == 0) partials[blockIdx.x] = own;
}

// out[0] = the norm of `count` partial results, by one block.
template <template <typename> class Norm, typename W>
__global__ void __launch_bounds__(THREADS) list_norm_total(const W* partials, W* out, int count) {
    W own = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < count; i += THREADS) own = Norm<W>()(own, partials[i]);
    own = joined(own, THREADS, Norm<W>());
    if (threadIdx.x == 0) out[0] = Norm<W>::norm(own);
}

template <typename W> struct Scale {
    static constexpr unsigned READS = 1, WRITES = 1;
    W factor;
    __device__ void operator()(W (&x)[1]) const { x[0] *= factor; }
};

// Scales all arrays by max_norm / (norm + 1e-6) if that is below 1 or NaN.
template <typename T>
__global__ void __launch_bounds__(THREADS)
limit_norm(const __grid_constant__ Lists<T, 1> lists, const Wide<T>* norm, Wide<T> max_norm) {
    const Wide<T> factor = max_norm / (*norm + Wide<T>(1e-6));
    if (factor >= 1) return;
    Chunk(lists).each(Scale<Wide<T>>{factor});
}
