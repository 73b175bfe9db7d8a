// Up to two results of each element of up to three arrays, by the functor of a formula. An array is one row.
#include "include/functions.cuh"
#include "formulas/elementwise.cuh"
#include "include/matrix.cuh"

// Arrays beyond the functor's INPUTS and OUTPUTS are null. A result may be one of the inputs.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)  // 128 registers: without the bound the compiler spills some of double
elementwise(const T* x, const T* second, const T* third, T* out, T* other,
            const __grid_constant__ Function<Wide<T>> f, long long rows, long long cols) {
    constexpr int INPUTS = Function<Wide<T>>::INPUTS, OUTPUTS = Function<Wide<T>>::OUTPUTS;
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
    const T* const inputs[] = {x, second, third};
    T* const outputs[] = {out, other};
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> read[INPUTS][1], written[OUTPUTS][1];
#pragma unroll
        for (int k = 0; k < INPUTS; ++k) share.load(read[k], inputs[k], row);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            Wide<T> element[INPUTS], result[OUTPUTS];
#pragma unroll
            for (int k = 0; k < INPUTS; ++k) element[k] = widen(read[k][0].at[i]);
            f(element, result);
#pragma unroll
            for (int k = 0; k < OUTPUTS; ++k) written[k][0].at[i] = static_cast<T>(result[k]);
        }
#pragma unroll
        for (int k = 0; k < OUTPUTS; ++k) share.store(written[k], outputs[k], row);
    }
}
