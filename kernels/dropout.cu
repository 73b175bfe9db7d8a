// Dropout: elements under the mask are scaled and shifted, the others become a constant. The mask is regenerated from
// its Philox counters and never stored. The gradient is the same kernel without shift and constant.
//
// Bit i of a mask is true if word i of its counters is below `threshold`, which is in [0, 2^32].
#include "include/philox.cuh"
#include "include/rows.cuh"

// A mask of cols bits, the same for every row. `out` may be `x`.
//
// A thread processes the columns of one counter, or of two where a 16-byte load of a half type needs two. It loads
// WIDTH columns at once; matrices of other sizes are loaded by element, with as many words per thread.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
dropout(const T* x, T* out, unsigned long long seed, unsigned long long start, const unsigned long long* live,
        long long threshold, Wide<T> scale, Wide<T> shift, Wide<T> dropped, long long rows, long long cols) {
    refresh(live, seed, start);
    constexpr int GROUP = sizeof(T) == 2 ? 8 : 4, STRIPS = GROUP / WIDTH;
    const Share<GROUP> share(rows, cols);
    if (share.column >= cols) return;
    bool kept[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; i += 4) {
        const Words words = philox(seed, start + (share.column + i) / 4);
#pragma unroll
        for (int j = 0; j < 4; ++j) kept[i + j] = words.at[j] < threshold;
    }
#pragma unroll 1
    for (long long row = share.row; row < rows; row += share.step) {
        const long long begin = row * cols + share.column, end = (row + 1) * cols;
        Strip<T, WIDTH> strips[STRIPS];
#pragma unroll
        for (int s = 0; s < STRIPS; ++s)
            if (begin + s * WIDTH < end) strips[s] = Strip<T, WIDTH>::load(x + begin + s * WIDTH);
#pragma unroll
        for (int s = 0; s < STRIPS; ++s) {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                const Wide<T> value = widen(strips[s].at[i]) * scale + shift;
                strips[s].at[i] = static_cast<T>(kept[s * WIDTH + i] ? value : dropped);
            }
            if (begin + s * WIDTH < end) strips[s].store(out + begin + s * WIDTH);
        }
    }
}

// A mask of `period` bits, one per row, repeated: for whole channels. `out` may be `x`.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
channel_dropout(const T* x, T* out, unsigned long long seed, unsigned long long start, const unsigned long long* live,
                long long threshold, Wide<T> scale, Wide<T> shift, Wide<T> dropped, long long period, long long rows,
                long long cols) {
    refresh(live, seed, start);
    constexpr int DEPTH = 2;
    const RowShare<WIDTH> share(rows, cols);
    if (share.row >= rows) return;
    const long long bit = period < rows ? share.row % period : share.row;
    const Words words = philox(seed, start + bit / 4);
    const unsigned low = bit & 1 ? words.at[1] : words.at[0], high = bit & 1 ? words.at[3] : words.at[2];
    const bool kept = (bit & 2 ? high : low) < threshold;
#pragma unroll 1
    for (long long column = share.column; column < cols; column += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, column);
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i)
                strips[d].at[i] = static_cast<T>(kept ? widen(strips[d].at[i]) * scale + shift : dropped);
            const long long place = column + d * share.step;
            if (place < cols) strips[d].store(out + share.row * cols + place);
        }
    }
}
