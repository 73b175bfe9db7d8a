// act(x + bias), its backward and its double backward, each with the bias gradient in the same pass.
//
// Act is generated from an activation's formula (backend/formulas/cuda_code.py). Its members are numbers; it has
//   value(z)   the result, for z = x + bias
//   pull(g, s) g times the derivative, where s is the saved value: the result if FROM_RESULT, else z
//   bend(s)    the derivative of the derivative by s; FLAT activations, where it is 0, have none
//   twist(s)   the derivative of the second derivative by z, by s; FLAT ones have none
// `saved` is the forward's result if FROM_RESULT, which needs no bias; else it is x, and a null bias means zeros.
//
// Two blocks per multiprocessor allow 128 registers per thread. Without that bound the compiler aims at more blocks and
// spills registers in some instances. For double a thread takes one row at a time, since its functions use more
// registers.
#include "include/functions.cuh"
#include "formulas/activations.cuh"
#include "include/matrix.cuh"

// out = act(x + bias). `out` may be `x`.
template <template <typename> class Act, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
bias_activation(const T* x, const T* bias, T* out, const __grid_constant__ Act<Wide<T>> act, long long rows,
                long long cols) {
    constexpr int DEPTH = sizeof(T) == 8 ? 1 : 2;
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
    const Strip<T, WIDTH> addends = share.load_row(bias);
#pragma unroll 1
    for (long long row = share.row; row < rows; row += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, row);
#pragma unroll
        for (Strip<T, WIDTH>& strip : strips)
#pragma unroll
            for (int i = 0; i < WIDTH; ++i)
                strip.at[i] = static_cast<T>(act.value(widen(strip.at[i]) + widen(addends.at[i])));
        share.store(strips, out, row);
    }
}

// dx = g * act'; dbias = the column sums of the unrounded dx, unless null. `dx` may be `g`.
template <template <typename> class Act, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
bias_activation_backward(const T* g, const T* saved, const T* bias, T* dx, T* dbias, Wide<T>* partials,
                         const __grid_constant__ Act<Wide<T>> act, long long rows, long long cols) {
    constexpr int DEPTH = sizeof(T) == 8 ? 1 : 2;
    const Share<WIDTH> share(rows, cols);
    Wide<T> sums[WIDTH] = {};
    if (share.column < cols) {
        const Strip<T, WIDTH> addends = share.load_row(Act<Wide<T>>::FROM_RESULT ? nullptr : bias);
#pragma unroll 1
        for (long long row = share.row; row < rows; row += DEPTH * share.step) {
            Strip<T, WIDTH> gs[DEPTH], strips[DEPTH];
            share.load(gs, g, row);
            share.load(strips, saved, row);
#pragma unroll
            for (int d = 0; d < DEPTH; ++d)
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) {
                    const Wide<T> s = widen(strips[d].at[i]) + widen(addends.at[i]);
                    const Wide<T> pulled = act.pull(widen(gs[d].at[i]), s);
                    gs[d].at[i] = static_cast<T>(pulled);
                    if (row + d * share.step < rows) sums[i] += pulled;
                }
            share.store(gs, dx, row);
        }
    }
    if (dbias != nullptr) store_column_sums(sums, share, dbias, partials);
}

// The gradients of bias_activation_backward, given those of its dx (gg) and of its dbias (ggb); a null one means zeros.
// With h = gg + ggb: dg = h * act', dx = h * g * act'', and dbias the column sums of dx; a null output is not written.
// For a FLAT activation g is not read, and neither dx nor dbias is written.
// With by_result, which requires FROM_RESULT, dx is the gradient for the saved result: h * g * d(act')/d(result).
// dg may be gg, and dx may be g.
template <template <typename> class Act, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
bias_activation_double_backward(const T* gg, const T* ggb, const T* g, const T* saved, const T* bias, T* dg, T* dx,
                                T* dbias, Wide<T>* partials, const __grid_constant__ Act<Wide<T>> act, int by_result,
                                long long rows, long long cols) {
    constexpr bool FLAT = Act<Wide<T>>::FLAT, FROM_RESULT = Act<Wide<T>>::FROM_RESULT;
    const Share<WIDTH> share(rows, cols);
    Wide<T> sums[WIDTH] = {};
    if (share.column < cols) {
        const Strip<T, WIDTH> addends = share.load_row(FROM_RESULT ? nullptr : bias);
        const Strip<T, WIDTH> shifts = share.load_row(ggb);
#pragma unroll 1
        for (long long row = share.row; row < rows; row += share.step) {
            Strip<T, WIDTH> ggs[1] = {}, gs[1], strips[1];
            if (gg != nullptr) share.load(ggs, gg, row);
            if constexpr (!FLAT) share.load(gs, g, row);
            share.load(strips, saved, row);
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                const Wide<T> s = widen(strips[0].at[i]) + widen(addends.at[i]);
                const Wide<T> h = widen(ggs[0].at[i]) + widen(shifts.at[i]);
                ggs[0].at[i] = static_cast<T>(act.pull(h, s));
                if constexpr (!FLAT) {
                    Wide<T> bent = h * widen(gs[0].at[i]) * act.bend(s);
                    if (FROM_RESULT && !by_result) bent = act.pull(bent, s);
                    sums[i] += bent;
                    gs[0].at[i] = static_cast<T>(bent);
                }
            }
            if (dg != nullptr) share.store(ggs, dg, row);
            if (!FLAT && dx != nullptr) share.store(gs, dx, row);
        }
    }
    if (!FLAT && dbias != nullptr) store_column_sums(sums, share, dbias, partials);
}
