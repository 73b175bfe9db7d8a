// The functor of a formula applied to all arrays of several lists: a function of lists, or an update of them.
//
// In a CUDA graph `live` may hold the functor's numbers, since those would be the same at every replay; else it is null.
// Nothing is done where `skip` is not null and its number not 0.
#include "include/functions.cuh"
#include "formulas/lists.cuh"
#include "include/tensor_lists.cuh"

template <template <typename> class Function, typename T>
__global__ void __launch_bounds__(THREADS, 2)  // 128 registers: without the bound the compiler spills some of double
foreach(const __grid_constant__ Lists<T, Function<Wide<T>>::LISTS> lists,
        const __grid_constant__ Function<Wide<T>> given, const double* live, const double* skip) {
    if (skip && *skip != 0) return;
    Function<Wide<T>> f = given;
    if (live) f.renew(live);
    Chunk(lists).each(f);
}
