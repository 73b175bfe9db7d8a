// A function of include/elementwise.cuh applied to all arrays of several lists: list 0 is the result, the others are
// the inputs, the first of which may be the result. In a CUDA graph `live` may hold a and b; else it is null.
#include "include/elementwise.cuh"
#include "include/tensor_lists.cuh"

template <template <typename> class Function, typename W> struct Apply {
    static constexpr int LISTS = 1 + Function<W>::INPUTS;
    static constexpr unsigned READS = (1u << LISTS) - 2, WRITES = 1;
    Function<W> function;
    __device__ void operator()(W (&x)[LISTS]) const { x[0] = function(x + 1); }
};

template <template <typename> class Function, typename T>
__global__ void __launch_bounds__(THREADS)
foreach(const __grid_constant__ Lists<T, Apply<Function, Wide<T>>::LISTS> lists, Wide<T> a, Wide<T> b,
        const double* live) {
    if (live) a = Wide<T>(live[0]), b = Wide<T>(live[1]);
    Chunk(lists).each(Apply<Function, Wide<T>>{{a, b}});
}
