// A step of a recurrent layer, given its product h_before @ w_hh^T, and the gradients of the step.
//
// A row is a sequence, a column one of `cols` units. Matrices of gates have the gates one after the other in each row,
// each for all units. `g` is the gradient of the step's own output, null if it has none, and `to_h` what the later
// steps add to it.
#include "include/functions.cuh"
#include "formulas/activations.cuh"
#include "include/matrix.cuh"

// Strips of a row of COUNT gates at the columns of `share`.
template <int COUNT, int WIDTH, typename T>
__device__ void load_gates(Strip<T, WIDTH> (&strips)[COUNT], const T* matrix, const Share<WIDTH>& share,
                           long long row) {
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
        strips[k] = Strip<T, WIDTH>::load(matrix + (row * COUNT + k) * share.cols + share.column);
}

template <int COUNT, int WIDTH, typename T>
__device__ void store_gates(const Strip<T, WIDTH> (&strips)[COUNT], T* matrix, const Share<WIDTH>& share,
                            long long row) {
#pragma unroll
    for (int k = 0; k < COUNT; ++k) strips[k].store(matrix + (row * COUNT + k) * share.cols + share.column);
}

// The strip of a row at the columns of `share`; zeros if the matrix is null.
template <int WIDTH, typename T>
__device__ Strip<T, WIDTH> load_strip(const T* matrix, const Share<WIDTH>& share, long long row) {
    if (matrix == nullptr) return {};
    return Strip<T, WIDTH>::load(matrix + row * share.cols + share.column);
}

template <int WIDTH, typename T>
__device__ void store_strip(const Strip<T, WIDTH>& strip, T* matrix, const Share<WIDTH>& share, long long row) {
    strip.store(matrix + row * share.cols + share.column);
}

// i, f, g, o of x + product; cells = f * before + i * g; values = o * tanh(cells).
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
lstm_step(const T* x, const T* product, const T* before, T* gates, T* cells, T* values, long long rows,
          long long cols) {
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> found[4], added[4], cell = load_strip(before, share, row), value;
        load_gates(found, x, share, row);
        load_gates(added, product, share, row);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            Wide<T> gate[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const Wide<T> a = widen(found[k].at[j]) + widen(added[k].at[j]);
                gate[k] = k == 2 ? tanh(a) : logistic(a);
                found[k].at[j] = static_cast<T>(gate[k]);
            }
            const Wide<T> c = gate[1] * widen(cell.at[j]) + gate[0] * gate[2];
            cell.at[j] = static_cast<T>(c);
            value.at[j] = static_cast<T>(gate[3] * tanh(c));
        }
        store_gates(found, gates, share, row);
        store_strip(cell, cells, share, row);
        store_strip(value, values, share, row);
    }
}

// The gradients of the gates' arguments, and `dc`, that of `before`; to_c is that of the cells from the later steps.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
lstm_step_backward(const T* g, const T* to_h, const T* to_c, const T* gates, const T* before, const T* cells, T* da,
                   T* dc, long long rows, long long cols) {
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> found[4], last = load_strip(before, share, row), cell = load_strip(cells, share, row);
        Strip<T, WIDTH> own = load_strip(g, share, row), later = load_strip(to_h, share, row);
        Strip<T, WIDTH> carried = load_strip(to_c, share, row);
        load_gates(found, gates, share, row);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const Wide<T> i = widen(found[0].at[j]), f = widen(found[1].at[j]);
            const Wide<T> n = widen(found[2].at[j]), o = widen(found[3].at[j]);
            const Wide<T> dh = widen(own.at[j]) + widen(later.at[j]), curve = tanh(widen(cell.at[j]));
            const Wide<T> d = widen(carried.at[j]) + dh * o * (1 - curve * curve);
            found[0].at[j] = static_cast<T>(d * n * i * (1 - i));
            found[1].at[j] = static_cast<T>(d * widen(last.at[j]) * f * (1 - f));
            found[2].at[j] = static_cast<T>(d * i * (1 - n * n));
            found[3].at[j] = static_cast<T>(dh * curve * o * (1 - o));
            carried.at[j] = static_cast<T>(d * f);
        }
        store_gates(found, da, share, row);
        store_strip(carried, dc, share, row);
    }
}

// r, z and n of x and u = product + bias, with n = tanh(x_n + r * u_n), and u_n; out = (1 - z) * n + z * before. A null
// bias means zeros.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
gru_step(const T* x, const T* product, const T* bias, const T* before, T* gates, T* out, long long rows,
         long long cols) {
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> given[3], added[3], offset[3] = {}, found[4], h = load_strip(before, share, row);
        load_gates(given, x, share, row);
        load_gates(added, product, share, row);
        if (bias != nullptr) load_gates(offset, bias, share, 0);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            Wide<T> u[3];
#pragma unroll
            for (int k = 0; k < 3; ++k) u[k] = widen(added[k].at[j]) + widen(offset[k].at[j]);
            const Wide<T> r = logistic(widen(given[0].at[j]) + u[0]), z = logistic(widen(given[1].at[j]) + u[1]);
            const Wide<T> n = tanh(widen(given[2].at[j]) + r * u[2]);
            found[0].at[j] = static_cast<T>(r);
            found[1].at[j] = static_cast<T>(z);
            found[2].at[j] = static_cast<T>(n);
            found[3].at[j] = static_cast<T>(u[2]);
            h.at[j] = static_cast<T>(n + z * (widen(h.at[j]) - n));
        }
        store_gates(found, gates, share, row);
        store_strip(h, out, share, row);
    }
}

// The gradients of x, of u, and what the output passes to `before` by itself: dh * z.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
gru_step_backward(const T* g, const T* to_h, const T* gates, const T* before, T* dx, T* du, T* passed, long long rows,
                  long long cols) {
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> found[4], to_x[3], to_u[3], last = load_strip(before, share, row);
        Strip<T, WIDTH> own = load_strip(g, share, row), later = load_strip(to_h, share, row);
        load_gates(found, gates, share, row);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            const Wide<T> r = widen(found[0].at[j]), z = widen(found[1].at[j]);
            const Wide<T> n = widen(found[2].at[j]), u = widen(found[3].at[j]);
            const Wide<T> dh = widen(own.at[j]) + widen(later.at[j]), dn = dh * (1 - z) * (1 - n * n);
            to_x[0].at[j] = to_u[0].at[j] = static_cast<T>(dn * u * r * (1 - r));
            to_x[1].at[j] = to_u[1].at[j] = static_cast<T>(dh * (widen(last.at[j]) - n) * z * (1 - z));
            to_x[2].at[j] = static_cast<T>(dn);
            to_u[2].at[j] = static_cast<T>(dn * r);
            later.at[j] = static_cast<T>(dh * z);
        }
        store_gates(to_x, dx, share, row);
        store_gates(to_u, du, share, row);
        store_strip(later, passed, share, row);
    }
}

// out = act(x + product).
template <template <typename> class Act, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
rnn_step(const T* x, const T* product, T* out, long long rows, long long cols) {
    const Act<Wide<T>> act{};
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> found = load_strip(x, share, row), added = load_strip(product, share, row);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j)
            found.at[j] = static_cast<T>(act.value(widen(found.at[j]) + widen(added.at[j])));
        store_strip(found, out, share, row);
    }
}

// dx = (g + to_h) * act'.
template <template <typename> class Act, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
rnn_step_backward(const T* g, const T* to_h, const T* out, T* dx, long long rows, long long cols) {
    const Act<Wide<T>> act{};
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> own = load_strip(g, share, row), later = load_strip(to_h, share, row);
        Strip<T, WIDTH> found = load_strip(out, share, row);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j)
            found.at[j] = static_cast<T>(act.pull(widen(own.at[j]) + widen(later.at[j]), widen(found.at[j])));
        store_strip(found, dx, share, row);
    }
}
