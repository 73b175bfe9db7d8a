// A function of every element, and the product of a gradient with its derivative.
//
// Function is one of include/functions.cuh with the parameters a, b and c. An array is one row.
#include "include/functions.cuh"
#include "include/matrix.cuh"

// out = f(x). `out` may be `x`.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
pointwise(const T* x, T* out, Wide<T> a, Wide<T> b, Wide<T> c, long long rows, long long cols) {
    const Function<Wide<T>> f{a, b, c};
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> strips[1];
        share.load(strips, x, row);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) strips[0].at[i] = static_cast<T>(f.value(widen(strips[0].at[i])));
        share.store(strips, out, row);
    }
}

// dx = g * f'(x). `dx` may be `g`.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
pointwise_backward(const T* g, const T* x, T* dx, Wide<T> a, Wide<T> b, Wide<T> c, long long rows, long long cols) {
    const Function<Wide<T>> f{a, b, c};
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> gs[1], strips[1];
        share.load(gs, g, row);
        share.load(strips, x, row);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i)
            gs[0].at[i] = static_cast<T>(f.pull(widen(gs[0].at[i]), widen(strips[0].at[i])));
        share.store(gs, dx, row);
    }
}
