// The chain rule to second order: streams of tangents behind a function of single elements, and its local terms.
//
// A stream holds for each row of the values d rows of tangents t_i, then one row of second tangents s_k for each pair
// of tangents i <= j (FULL_HESSIAN, row by row), for each tangent (DIAGONAL), or one in all (LAPLACIAN). An input stream
// without `seconds` has tangents only, and all its second tangents are zero; one that is `shared` has the d rows, or
// all, of a single row of the values, for all of them.
//
// A thread keeps up to HELD tangents and their gradients in shared memory, in slots that no other thread uses: in
// registers they would have to be unrolled for each form, and spill. If HELD is 0 there may be any number of tangents,
// and the thread reads them again for each pair, from the L1 cache if they are still there.
#include "include/functions.cuh"
#include "formulas/activations.cuh"
#include "include/rows.cuh"

__device__ inline unsigned this_thread() { return threadIdx.y * blockDim.x + threadIdx.x; }

// The tangents of one thread's columns.
template <typename T, int WIDTH, int HELD> struct Tangents {
    const T* const first;
    const long long cols;
    Strip<T, WIDTH>* slots = nullptr;

    __device__ Tangents(const T* first, long long cols, int d) : first(first), cols(cols) {
        if constexpr (HELD != 0) {
            // As bytes, since a host compiler initialises half types.
            alignas(sizeof(Strip<T, WIDTH>)) __shared__ char held[HELD * THREADS * sizeof(Strip<T, WIDTH>)];
            slots = reinterpret_cast<Strip<T, WIDTH>*>(held) + this_thread();
#pragma unroll
            for (int i = 0; i < HELD; ++i)
                if (i < d) slots[i * THREADS] = Strip<T, WIDTH>::load(first + i * cols);
        }
    }

    __device__ Strip<T, WIDTH> operator[](int i) const {
        if constexpr (HELD != 0) return slots[i * THREADS];
        else return Strip<T, WIDTH>::load(first + i * cols);
    }
};

// Calls visit(i, j, k) for each pair of tangents i <= j of a form, in the order of its rows k of second tangents.
template <typename Visit> __device__ void each_pair(int d, int form, const Visit& visit) {
    int k = d;
#pragma unroll 1
    for (int i = 0; i < d; ++i)
#pragma unroll 1
        for (int j = i; j < (form == FULL_HESSIAN ? d : i + 1); ++j) {
            visit(i, j, k);
            k += form != LAPLACIAN;
        }
}

// One row behind the function: f1 t_i, then f1 s_k + f2 times the sum over the pairs of k of t_i t_j.
template <int HELD, typename T, int WIDTH>
__device__ void push(const Wide<T> (&f1)[WIDTH], const Wide<T> (&f2)[WIDTH], const T* in, T* out, long long cols, int d,
                     int form, int seconds) {
    const Tangents<T, WIDTH, HELD> t(in, cols, d);
#pragma unroll 1
    for (int i = 0; i < d; ++i) {
        Strip<T, WIDTH> strip = t[i];
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) strip.at[c] = static_cast<T>(f1[c] * widen(strip.at[c]));
        strip.store(out + i * cols);
    }
    Wide<T> sums[WIDTH] = {};
    const auto store = [&](int k) {
        Strip<T, WIDTH> strip = {};
        if (seconds) strip = Strip<T, WIDTH>::load(in + k * cols);
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            strip.at[c] = static_cast<T>(f1[c] * widen(strip.at[c]) + f2[c] * sums[c]);
            sums[c] = 0;
        }
        strip.store(out + k * cols);
    };
    each_pair(d, form, [&](int i, int j, int k) {
        const Strip<T, WIDTH> a = t[i], b = t[j];
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) sums[c] += widen(a.at[c]) * widen(b.at[c]);
        if (form != LAPLACIAN) store(k);
    });
    if (form == LAPLACIAN) store(d);
}

// For each tangent y_i, the sum over its pairs with any j of (1 + [i = j]) times the gradient of their row times t_j.
template <typename T, int WIDTH, int HELD> struct Pulled {
    using Sums = Strip<Wide<T>, WIDTH>;
    const Tangents<T, WIDTH, HELD>& t;
    const int d, form;
    Sums* slots = nullptr;

    __device__ Pulled(const Tangents<T, WIDTH, HELD>& t, int d, int form) : t(t), d(d), form(form) {
        if constexpr (HELD != 0) {
            __shared__ Sums held[HELD][THREADS];
            slots = &held[0][this_thread()];
            for (int i = 0; i < d; ++i) slots[i * THREADS] = {};
        }
    }

    // Adds the pair i, j, for whose row the gradient is u.
    __device__ void add(int i, int j, const Strip<T, WIDTH>& u) {
        if constexpr (HELD != 0) {
            add_to(slots[i * THREADS], u, t[j], i == j ? 2 : 1);
            if (i != j) add_to(slots[j * THREADS], u, t[i], 1);
        }
    }

    // y_i; without slots from the gradients g of all rows.
    __device__ Sums operator()(int i, const T* g) const {
        if constexpr (HELD != 0) return slots[i * THREADS];
        Sums sums = {};
        const bool full = form == FULL_HESSIAN;
#pragma unroll 1
        for (int j = full ? 0 : i; j < (full ? d : i + 1); ++j)
            add_to(sums, Strip<T, WIDTH>::load(g + row_of(i, j) * t.cols), t[j], i == j ? 2 : 1);
        return sums;
    }

private:
    static __device__ void add_to(Sums& sums, const Strip<T, WIDTH>& u, const Strip<T, WIDTH>& other, int times) {
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) sums.at[c] += times * widen(u.at[c]) * widen(other.at[c]);
    }

    // The row of the second tangent of a pair in either order.
    __device__ int row_of(int i, int j) const {
        const int low = i < j ? i : j, apart = i < j ? j - i : i - j;
        return form == LAPLACIAN ? d : form == DIAGONAL ? d + i : d + low * d - low * (low - 1) / 2 + apart;
    }
};

// The gradients of `push`, given that of its result: of the stream in `dstream`, unless null, of f1 and of f2.
template <int HELD, typename T, int WIDTH>
__device__ void pull(const Wide<T> (&f1)[WIDTH], const Wide<T> (&f2)[WIDTH], const T* in, const T* g, T* dstream,
                     long long cols, int d, int form, int seconds, Wide<T> (&bar1)[WIDTH], Wide<T> (&bar2)[WIDTH]) {
    const Tangents<T, WIDTH, HELD> t(in, cols, d);
    Pulled<T, WIDTH, HELD> pulled(t, d, form);
    Strip<T, WIDTH> u = {};  // the gradient of a row of second tangents
    const auto second = [&](int k) {
        u = Strip<T, WIDTH>::load(g + k * cols);
        if (!seconds) return;
        Strip<T, WIDTH> strip = Strip<T, WIDTH>::load(in + k * cols);
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            bar1[c] += widen(u.at[c]) * widen(strip.at[c]);
            strip.at[c] = static_cast<T>(f1[c] * widen(u.at[c]));
        }
        if (dstream != nullptr) strip.store(dstream + k * cols);
    };
    if (form == LAPLACIAN) second(d);
    each_pair(d, form, [&](int i, int j, int k) {
        if (form != LAPLACIAN) second(k);
        pulled.add(i, j, u);
    });
#pragma unroll 1
    for (int i = 0; i < d; ++i) {
        const Strip<Wide<T>, WIDTH> y = pulled(i, g);
        const Strip<T, WIDTH> own = t[i];
        Strip<T, WIDTH> q = Strip<T, WIDTH>::load(g + i * cols);
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            bar1[c] += widen(q.at[c]) * widen(own.at[c]);
            bar2[c] += Wide<T>(0.5) * y.at[c] * widen(own.at[c]);
            q.at[c] = static_cast<T>(f1[c] * widen(q.at[c]) + f2[c] * y.at[c]);
        }
        if (dstream != nullptr) q.store(dstream + i * cols);
    }
}

// The rows of a stream that belong to this thread's row and columns of the values.
template <int WIDTH> struct Places {
    const Share<WIDTH>& share;
    const int given, made;  // rows of the input and of the result for each row of the values
    const bool shared;

    __device__ Places(const Share<WIDTH>& share, int d, int form, int seconds, int shared)
        : share(share), given(seconds ? d + count(d, form) : d), made(d + count(d, form)), shared(shared) {}

    static __device__ int count(int d, int form) {
        return form == LAPLACIAN ? 1 : form == DIAGONAL ? d : d * (d + 1) / 2;
    }
    template <typename T> __device__ T* own(T* stream, long long row) const {
        return stream == nullptr ? nullptr : stream + row * given * share.cols + share.column;
    }
    template <typename T> __device__ T* input(T* stream, long long row) const { return own(stream, shared ? 0 : row); }
    template <typename T> __device__ T* result(T* stream, long long row) const {
        return stream + row * made * share.cols + share.column;
    }
};

// ---- behind any function -----------------------------------------------------------------------------

template <typename T, int HELD, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
chain_stream(const T* f1, const T* f2, const T* stream, T* out, int d, int form, int seconds, int shared,
             long long rows, long long cols) {
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
    const Places<WIDTH> places(share, d, form, seconds, shared);
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> a[1], b[1];
        share.load(a, f1, row);
        share.load(b, f2, row);
        Wide<T> first[WIDTH], second[WIDTH];
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            first[c] = widen(a[0].at[c]);
            second[c] = widen(b[0].at[c]);
        }
        push<HELD>(first, second, places.input(stream, row), places.result(out, row), cols, d, form, seconds);
    }
}

// Its gradients; a null output is not written. dstream has rows of its own also where the stream is shared.
template <typename T, int HELD, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
chain_stream_backward(const T* g, const T* f1, const T* f2, const T* stream, T* df1, T* df2, T* dstream, int d,
                      int form, int seconds, int shared, long long rows, long long cols) {
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
    const Places<WIDTH> places(share, d, form, seconds, shared);
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> a[1], b[1];
        share.load(a, f1, row);
        share.load(b, f2, row);
        Wide<T> first[WIDTH], second[WIDTH], bar1[WIDTH] = {}, bar2[WIDTH] = {};
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            first[c] = widen(a[0].at[c]);
            second[c] = widen(b[0].at[c]);
        }
        pull<HELD>(first, second, places.input(stream, row), places.result(g, row), places.own(dstream, row), cols, d,
                   form, seconds, bar1, bar2);
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) {
            a[0].at[c] = static_cast<T>(bar1[c]);
            b[0].at[c] = static_cast<T>(bar2[c]);
        }
        if (df1 != nullptr) share.store(a, df1, row);
        if (df2 != nullptr) share.store(b, df2, row);
    }
}

// ---- behind an activation ----------------------------------------------------------------------------

// act' and act'' at the saved values.
template <typename Act, typename W, int WIDTH>
__device__ void slopes(const Act& act, const W (&s)[WIDTH], W (&f1)[WIDTH], W (&f2)[WIDTH]) {
#pragma unroll
    for (int c = 0; c < WIDTH; ++c) {
        f1[c] = act.pull(1, s[c]);
        f2[c] = act.bend(s[c]);
        if (Act::FROM_RESULT) f2[c] = act.pull(f2[c], s[c]);
    }
}

// `saved` is the activation's result if FROM_RESULT, which needs no bias; else it is x, and a null bias means zeros.
template <template <typename> class Act, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
activation_jet(const T* saved, const T* bias, const T* stream, T* out, const __grid_constant__ Act<Wide<T>> act, int d,
               int form, int seconds, int shared, long long rows, long long cols) {
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
    const Places<WIDTH> places(share, d, form, seconds, shared);
    const Strip<T, WIDTH> addends = share.load_row(Act<Wide<T>>::FROM_RESULT ? nullptr : bias);
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        Strip<T, WIDTH> strips[1];
        share.load(strips, saved, row);
        Wide<T> s[WIDTH], f1[WIDTH], f2[WIDTH];
#pragma unroll
        for (int c = 0; c < WIDTH; ++c) s[c] = widen(strips[0].at[c]) + widen(addends.at[c]);
        slopes(act, s, f1, f2);
        push<HELD_TANGENTS>(f1, f2, places.input(stream, row), places.result(out, row), cols, d, form, seconds);
    }
}

// Its gradients, for the saved values in ds and as their column sums in dbias; a null output is not written. dstream has
// rows of its own also where the stream is shared.
template <template <typename> class Act, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
activation_jet_backward(const T* g, const T* saved, const T* bias, const T* stream, T* ds, T* dbias, Wide<T>* partials,
                        T* dstream, const __grid_constant__ Act<Wide<T>> act, int d, int form, int seconds, int shared,
                        long long rows, long long cols) {
    const Share<WIDTH> share(rows, cols);
    Wide<T> sums[WIDTH] = {};
    if (share.column < cols) {
        const Places<WIDTH> places(share, d, form, seconds, shared);
        const Strip<T, WIDTH> addends = share.load_row(Act<Wide<T>>::FROM_RESULT ? nullptr : bias);
#pragma unroll 1
        for (long long row = share.row; row < rows; row += share.step) {
            Strip<T, WIDTH> strips[1];
            share.load(strips, saved, row);
            Wide<T> s[WIDTH], f1[WIDTH], f2[WIDTH], bar1[WIDTH] = {}, bar2[WIDTH] = {};
#pragma unroll
            for (int c = 0; c < WIDTH; ++c) s[c] = widen(strips[0].at[c]) + widen(addends.at[c]);
            slopes(act, s, f1, f2);
            pull<HELD_TANGENTS>(f1, f2, places.input(stream, row), places.result(g, row), places.own(dstream, row), cols,
                                d, form, seconds, bar1, bar2);
#pragma unroll
            for (int c = 0; c < WIDTH; ++c) {
                const Wide<T> inner = bar1[c] * act.bend(s[c]) + bar2[c] * act.twist(s[c]);
                sums[c] += inner;
                strips[0].at[c] = static_cast<T>(inner);
            }
            if (ds != nullptr) share.store(strips, ds, row);
        }
    }
    if (dbias != nullptr) store_column_sums(sums, share, dbias, partials);
}

// ---- local terms -------------------------------------------------------------------------------------

// out[r, o, i, j] = the sum over the columns of a[r, o] f2[r] t[r, i] t[r, j], for outputs o and tangents i, j < d.
//
// A thread sums a tile of outputs and pairs of tangents at a time; another tile reads f2 and tangents again. If t is
// `shared`, it has the tangents of a single row, for all of them.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
local_terms(const T* a, const T* f2, const T* t, T* out, int outputs, int d, int shared, long long rows,
            long long cols) {
    // A sum of double takes two registers, and a strip of a half type has twice as many elements.
    constexpr int OUTPUTS = sizeof(T) == 4 ? TILE_OUTPUTS : TILE_OUTPUTS / 2;
    const RowShare<WIDTH> share(rows, cols);
    const long long end = share.end(), row = share.row;
    const T* tangents = t + (shared ? 0 : row * d * cols);
#pragma unroll 1
    for (int o = 0; o < outputs; o += OUTPUTS)
#pragma unroll 1
        for (int i = 0; i < d; i += TILE_TANGENTS)
#pragma unroll 1
            for (int j = i; j < d; j += TILE_TANGENTS) {
                Wide<T> sums[OUTPUTS][TILE_TANGENTS][TILE_TANGENTS] = {};
#pragma unroll 1
                for (long long column = share.column; column < end; column += share.step) {
                    const auto strip = [&](const T* matrix, long long line) {
                        return Strip<T, WIDTH>::load(matrix + line * cols + column);
                    };
                    Strip<T, WIDTH> left[TILE_TANGENTS], right[TILE_TANGENTS];
                    const Strip<T, WIDTH> curve = strip(f2, row);
#pragma unroll
                    for (int p = 0; p < TILE_TANGENTS; ++p) {
                        left[p] = {};
                        if (i + p < d) left[p] = strip(tangents, i + p);
                        right[p] = left[p];
                        if (j != i && j + p < d) right[p] = strip(tangents, j + p);
                    }
#pragma unroll
                    for (int n = 0; n < OUTPUTS; ++n) {
                        if (o + n >= outputs) break;
                        const Strip<T, WIDTH> adjoint = strip(a, row * outputs + o + n);
#pragma unroll
                        for (int c = 0; c < WIDTH; ++c)
#pragma unroll
                            for (int p = 0; p < TILE_TANGENTS; ++p) {
                                const Wide<T> bent = widen(adjoint.at[c]) * widen(curve.at[c]) * widen(left[p].at[c]);
#pragma unroll
                                for (int q = 0; q < TILE_TANGENTS; ++q)
                                    sums[n][p][q] += bent * widen(right[q].at[c]);
                            }
                    }
                }
#pragma unroll
                for (int n = 0; n < OUTPUTS; ++n)
#pragma unroll
                    for (int p = 0; p < TILE_TANGENTS; ++p)
#pragma unroll
                        for (int q = 0; q < TILE_TANGENTS; ++q) {
                            const int x = i + p, y = j + q;
                            if (o + n >= outputs || x > y || y >= d) continue;  // the same for all threads
                            const Wide<T> sum = sum_for_row(sums[n][p][q]);
                            if (threadIdx.x != 0 || row >= rows) continue;
                            T* terms = out + (row * outputs + o + n) * d * d;
                            terms[x * d + y] = terms[y * d + x] = static_cast<T>(sum);
                        }
            }
}
