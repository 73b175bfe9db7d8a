// A group: the arithmetic of several ops in one pass over arrays of one size, by a generated functor.
#include "include/functions.cuh"
#include "formulas/group.cuh"
#include "include/group.cuh"

// A thread takes strips of WIDTH elements, as far apart as the grid has threads. A result may be one of the inputs.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group(const __grid_constant__
          Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
      long long size) {
    constexpr int OUTPUTS = Function<float>::OUTPUTS;
    Computation<Function, T, WIDTH, OUTPUTS> computation(arrays);
    const long long apart = static_cast<long long>(gridDim.x) * blockDim.x * WIDTH;
    const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * WIDTH;
#pragma unroll 1
    for (long long i = first; i < size; i += apart)
        computation.flat_strip(i, size, [](int, const Wide<T> (&)[OUTPUTS]) {});
}
