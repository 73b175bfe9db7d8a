// Kernels without a fault, for test_emulator.py.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

constexpr unsigned ALL = 0xffffffff;

extern "C" __global__ void __launch_bounds__(256) copy(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) __stcs(reinterpret_cast<float4*>(y) + i, __ldg(reinterpret_cast<const float4*>(x) + i));
    else if (4 * i < n)
        for (int k = 4 * i; k < n; ++k) y[k] = x[k];
}

// Blocks of (32, 32). out must be zero.
extern "C" __global__ void column_sum(const float* x, float* out, int rows, int cols) {
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = r < rows && c < cols ? x[r * cols + c] : 0;
    __syncthreads();
    float sum = tile[threadIdx.x][threadIdx.y];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(ALL, sum, d);
    int column = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && column < cols) atomicAdd(out + column, sum);
}

template <typename Op> __device__ float over_block(float value, Op op) {
    __shared__ float of_warp[32];
    for (int d = 16; d; d /= 2) value = op(value, __shfl_xor_sync(ALL, value, d));
    __syncthreads();    // of_warp may still be read by an earlier call
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (int i = 1; i < blockDim.x / 32; ++i) value = op(value, of_warp[i]);
    return value;
}

// One block per row, cols * sizeof(float) bytes of dynamic shared memory.
template <typename T> __global__ void row_softmax(const T* x, T* y, int cols) {
    extern __shared__ __align__(16) float row[];
    x += (long long)blockIdx.x * cols;
    y += (long long)blockIdx.x * cols;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) most = max(most, row[c] = float(x[c]));
    most = over_block(most, [](float a, float b) { return max(a, b); });
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += row[c] = __expf(row[c] - most);
    sum = over_block(sum, [](float a, float b) { return a + b; });
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = T(__fdividef(row[c], sum));
}

extern "C" __global__ void to_fp8(const float* x, unsigned char* e4m3, unsigned char* e5m2, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    e4m3[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3);
    e5m2[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E5M2);
}

extern "C" __global__ void from_fp8(const unsigned char* codes, __half* e4m3, __nv_bfloat16* e5m2) {
    int i = threadIdx.x;
    e4m3[i] = __half(__nv_cvt_fp8_to_halfraw(codes[i], __NV_E4M3));
    e5m2[i] = __nv_bfloat16(float(__half(__nv_cvt_fp8_to_halfraw(codes[i], __NV_E5M2))));
}

// The threads in the order of their turns.
extern "C" __global__ void turns(int* count, int* order) {
    order[atomicAdd(count, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
}

// blockIdx.y names the array.
extern "C" __global__ void scale_each(float* const* arrays, const int* sizes, float factor) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < sizes[blockIdx.y]; i += gridDim.x * blockDim.x)
        arrays[blockIdx.y][i] *= factor;
}

// Threads from `alive` on finish at once; a barrier does not wait for them.
extern "C" __global__ void rotate(const int* x, int* y, int alive) {
    __shared__ int values[64];
    int t = threadIdx.x;
    if (t >= alive) return;
    values[t] = x[t];
    __syncthreads();
    y[t] = values[(t + 1) % alive];
}

// Lanes exchange through shared memory: __syncwarp orders it.
extern "C" __global__ void reverse_warps(const float* x, float* y) {
    __shared__ float values[64];
    int t = threadIdx.x;
    values[t] = x[t];
    __syncwarp();
    y[t] = values[t ^ 31];
}

// The last block to finish adds what the blocks have left in `partial`.
extern "C" __global__ void sum_in_one_launch(const float* x, float* partial, unsigned* finished, float* out) {
    float sum = over_block(x[blockIdx.x * blockDim.x + threadIdx.x], [](float a, float b) { return a + b; });
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x) return;
    *out = 0;
    for (int i = 0; i < gridDim.x; ++i) *out += partial[i];
}

// Each row of out is what the 64 threads got from one call.
extern "C" __global__ void collectives(const int* x, int* out) {
    int t = threadIdx.x, lane = t % 32, value = x[t], row = 0;
    auto put = [&](int result) { out[64 * row++ + t] = result; };
    put(__shfl_sync(ALL, value, 3));
    put(__shfl_sync(ALL, value, lane + 1, 8));
    put(__shfl_up_sync(ALL, value, 2));
    put(__shfl_down_sync(ALL, value, 2, 16));
    put(__shfl_xor_sync(ALL, value, 5));
    put(int(__shfl_xor_sync(ALL, double(value), 1)));
    put(int(float(__shfl_xor_sync(ALL, __half2(float(value), 0), 1).x)));
    unsigned half = lane < 16 ? 0xffff : 0xffff0000;
    put(__shfl_xor_sync(half, value, 1));
    put(int(__ballot_sync(ALL, value % 3 == 0)));
    put(__any_sync(ALL, value == x[40]));
    put(__all_sync(ALL, value != x[40]));
    put(int(__match_any_sync(ALL, value % 5)));
    put(__reduce_add_sync(ALL, value));
    put(__reduce_max_sync(ALL, value));
    put(__reduce_min_sync(ALL, value));
    put(int(__reduce_xor_sync(ALL, unsigned(value))));
    put(__syncthreads_count(value % 2));
    put(__syncthreads_or(value == x[40]));
    put(__syncthreads_and(value != x[40]));
    put(int(__activemask()));
}

// Every thread applies its value to the same places.
extern "C" __global__ void atomics(const int* x, int* ints, unsigned* bits, float* f, double* d, __half* h,
                                   __nv_bfloat16* b) {
    int value = x[threadIdx.x];
    atomicAdd(ints + 0, value);
    atomicSub(ints + 1, value);
    atomicMax(ints + 2, value);
    atomicMin(ints + 3, value);
    for (int seen = 0, old; (old = atomicCAS(ints + 4, seen, seen + 2)) != seen; seen = old) {}
    atomicOr(bits + 0, 1u << (value & 31));
    atomicAnd(bits + 1, ~(1u << (value & 31)));
    atomicXor(bits + 2, unsigned(value));
    atomicInc(bits + 3, 9u);
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(h, __half(1));
    atomicAdd(b, __nv_bfloat16(1));
}

extern "C" __global__ void arithmetic(float* out) {
    float x = 0.3f, results[] = {
        __expf(x), __logf(x), __fdividef(x, 3), __frcp_rn(x), rsqrtf(x), __fmaf_rn(x, x, -x), __saturatef(2),
        __powf(x, 3), __uint_as_float(__float_as_uint(x)), float(__float2int_rn(2.5f)), float(__float2int_rz(-3e9f)),
        float(__popc(255)), float(__clz(1)), float(__ffs(8)), float(max(3, 7)), min(x, 2.0f),
        float(__hfma(__half(2), __half(3), __half(1))), float(hexp(__half(0))), float(__umulhi(1u << 31, 6)),
        normcdff(0), float(__hmax(__half(1), __half(2)))};
    for (int i = 0; i < sizeof results / sizeof *results; ++i) out[i] = results[i];
}

struct Shape { int rows, cols; double weights[2]; };
extern "C" __global__ void signature(const Shape shape, const __half* x, float4* y, unsigned char* codes, void* any,
                                     double* const* table, const double* const* reads, float a, long long n,
                                     bool flag) {
    if (flag) printf("%d x %d, %g %g, %g, %lld\n", shape.rows, shape.cols, shape.weights[0], shape.weights[1], a, n);
}
