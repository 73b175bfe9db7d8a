// Kernels with one mistake each, for test_emulator.py. A line that a report must name ends with a remark.
constexpr unsigned ALL = 0xffffffff;

extern "C" __global__ void missing_barrier(const float* x, float* y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];                         // missing_barrier writes
    y[threadIdx.x] = tile[63 - threadIdx.x];                    // missing_barrier reads
}

extern "C" __global__ void divergent_barrier(float* y) {
    if (threadIdx.x < 16) __syncthreads();                      // divergent_barrier one
    else __syncthreads();                                       // divergent_barrier other
}

extern "C" __global__ void exited_lane(float* y) {
    if (threadIdx.x == 5) return;
    y[threadIdx.x] = __shfl_sync(ALL, y[threadIdx.x], 0);       // exited_lane
}

extern "C" __global__ void different_calls(float* y) {
    float v = y[threadIdx.x];
    v = threadIdx.x < 16 ? __shfl_sync(ALL, v, 0) : __shfl_sync(ALL, v, 0);     // different_calls
    y[threadIdx.x] = v;
}

extern "C" __global__ void barrier_in_half_a_warp(float* y) {
    if (threadIdx.x < 16) __syncwarp();                         // half_a_warp
    __syncthreads();
}

extern "C" __global__ void own_lane_not_named(float* y) {
    y[threadIdx.x] = __shfl_sync(0xffff, y[threadIdx.x], 0);
}

extern "C" __global__ void lane_not_named(float* y) {
    if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0xffff, y[threadIdx.x], 20);
}

extern "C" __global__ void partly_written(float* y) {
    __shared__ float sums[64];
    if (threadIdx.x < 32) sums[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = sums[threadIdx.x];
}

extern "C" __global__ void never_written(float* y) {
    __shared__ float sums[64];
    y[threadIdx.x] = sums[threadIdx.x];
}

// Shared memory does not outlive a block.
template <typename T> __global__ void written_by_block_0(T* y) {
    __shared__ T kept[64];
    if (blockIdx.x == 0) kept[threadIdx.x] = 1;
    y[blockIdx.x * 64 + threadIdx.x] = kept[threadIdx.x];
}

extern "C" __global__ void dynamic_never_written(float* y) {
    extern __shared__ float buffer[];
    y[threadIdx.x] = buffer[threadIdx.x];
}

extern "C" __global__ void write_at(float* y, int i) {
    if (threadIdx.x == 3) y[i] = 1;                             // write_at
}

extern "C" __global__ void read_from(const float4* x, float4* y) { *y = *x; }

extern "C" __global__ void through_table(float* const* table) { table[0][threadIdx.x] = 0; }

extern "C" __global__ void stack_overflow(float* y, int n) {
    volatile char local[300 << 10];
    local[n] = 1;
}

extern "C" __global__ void dynamic_overrun(int n) {
    extern __shared__ float buffer[];
    buffer[n] = 1;
}

extern "C" __global__ void static_overrun(int* y, int n) {
    __shared__ int values[32];
    values[threadIdx.x + n] = threadIdx.x;                      // static_overrun
    __syncthreads();
    y[threadIdx.x] = values[threadIdx.x];
}

extern "C" __global__ void endless(const volatile int* flag) {
    while (!*flag) {}                                           // endless
}

extern "C" __global__ void divide(int* y, int divisor) { y[threadIdx.x] /= divisor; }

extern "C" __global__ void overflow(int* y, int n) { y[threadIdx.x] = n + int(threadIdx.x); }

extern "C" __global__ void trap() { if (threadIdx.x == 2) __trap(); }           // trap

extern "C" __global__ void assertion(int n) { assert(n == 0); }                 // assertion

// Sums columns, a block per row: right on a machine that runs one block at a time.
extern "C" __global__ void add_rows(const float* x, float* out) {
    out[threadIdx.x] += x[blockIdx.x * blockDim.x + threadIdx.x];               // add_rows
}

extern "C" __global__ void overlapping_stride(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];    // overlapping_stride
}

extern "C" __global__ void reused_too_early(const float* x, float* y) {
    __shared__ float tile[64];
    for (int i = 0; i < 2; ++i) {
        tile[threadIdx.x] = x[64 * i + threadIdx.x];            // reused_too_early writes
        __syncthreads();
        y[64 * i + threadIdx.x] = tile[63 - threadIdx.x];       // reused_too_early reads
    }
}

// A shuffle orders no memory.
extern "C" __global__ void shuffle_for_syncwarp(const float* x, float* y) {
    __shared__ float tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    __shfl_sync(ALL, 0, 0);
    y[threadIdx.x] = tile[31 - threadIdx.x];
}

// A __syncwarp orders one warp.
extern "C" __global__ void syncwarp_for_barrier(const float* x, float* y) {
    __shared__ float tile[32];
    if (threadIdx.x < 32) tile[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    if (threadIdx.x >= 32) y[threadIdx.x] = tile[threadIdx.x - 32];
}

extern "C" __global__ void cleared_while_read(float* total, float* y) {
    y[threadIdx.x] = *total;                                    // cleared_while_read reads
    if (threadIdx.x == 63) *total = 0;                          // cleared_while_read writes
}

extern "C" __global__ void plain_zero(float* total) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;                              // plain_zero
    atomicAdd(&sum, 1.0f);                                      // plain_zero atomic
    __syncthreads();
    if (threadIdx.x == 0) *total = sum;
}

extern "C" __global__ void unfenced(float* partial, unsigned* finished, float* out) {
    partial[blockIdx.x] = 1;
    if (atomicInc(finished, gridDim.x - 1) < gridDim.x - 1) return;
    for (int i = 0; i < gridDim.x; ++i) *out += partial[i];
}
