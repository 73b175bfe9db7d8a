// Reductions over threads of a block in a fixed order.
#pragma once

struct Plus {
    template <typename W> __device__ W operator()(W a, W b) const { return a + b; }
};

struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
    __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

// The reduction by `join` over groups of `count` adjacent threads, a power of two, returned to all of them. All threads
// of the block must call it. The order depends on `count` only.
template <typename W, typename Join> __device__ W joined(W value, unsigned count, Join join) {
    __shared__ W shared[THREADS / 32];
    // Both lanes of a pair combine the same two numbers, so all lanes end with the same bits.
    for (unsigned half = min(count, 32u) / 2; half > 0; half /= 2)
        value = join(value, __shfl_xor_sync(0xffffffff, value, half));
    if (count <= 32) return value;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, warp = thread / 32, warps = count / 32;
    __syncthreads();  // until the sums of an earlier call were read
    if (thread % 32 == 0) shared[warp] = value;
    __syncthreads();
    const unsigned first = warp / warps * warps;
    value = shared[first];
    for (unsigned other = first + 1; other < first + warps; ++other) value = join(value, shared[other]);
    return value;
}
