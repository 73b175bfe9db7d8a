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
list_norm(T* const* arrays, const long long* sizes, const int* chunks, int tensors, Wide<T>* partials) {
    Wide<T> own = 0;
    Chunk<T, 1>(arrays, sizes, chunks, tensors).each(Sum<Norm, Wide<T>>{own});
    own = joined(own, THREADS, Norm<Wide<T>>());
    if (threadIdx.x == 0) partials[blockIdx.x] = own;
}

// out[block] = the norm of partials[first[block]] to partials[first[block + 1] - 1].
template <template <typename> class Norm, typename W>
__global__ void __launch_bounds__(THREADS) list_norm_total(const W* partials, const int* first, W* out) {
    W own = 0;
#pragma unroll 4
    for (int i = first[blockIdx.x] + threadIdx.x; i < first[blockIdx.x + 1]; i += THREADS)
        own = Norm<W>()(own, partials[i]);
    own = joined(own, THREADS, Norm<W>());
    if (threadIdx.x == 0) out[blockIdx.x] = Norm<W>::norm(own);
}

template <typename W> struct Scale {
    static constexpr unsigned READS = 1, WRITES = 1;
    W factor;
    __device__ void operator()(W (&x)[1]) const { x[0] *= factor; }
};

// Scales all arrays by max_norm / (norm + 1e-6) if that is below 1 or NaN.
template <typename T>
__global__ void __launch_bounds__(THREADS)
limit_norm(T* const* arrays, const long long* sizes, const int* chunks, int tensors, const Wide<T>* norm,
           Wide<T> max_norm) {
    const Wide<T> factor = max_norm / (*norm + Wide<T>(1e-6));
    if (factor >= 1) return;
    Chunk<T, 1>(arrays, sizes, chunks, tensors).each(Scale<Wide<T>>{factor});
}
