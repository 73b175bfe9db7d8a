// Arrays of random numbers; include/philox.cuh says which words a number uses.
#include "include/philox.cuh"
#include "include/rows.cuh"

// The numbers made from 16 random bytes: four of float or two of double.
template <typename W> using Numbers = Strip<W, 16 / sizeof(W)>;

// The bits of a uniform number: as many as T keeps, and more are truncated, since rounding could give 1.
template <typename T> constexpr int UNIFORM_BITS = 24;
template <> constexpr int UNIFORM_BITS<double> = 53;
template <> constexpr int UNIFORM_BITS<__half> = 11;
template <> constexpr int UNIFORM_BITS<__nv_bfloat16> = 8;

// Uniform on [0, 1): multiples of 2^-bits.
__device__ inline void below_one(const Words& words, Numbers<float>& out, int bits) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out.at[i] = static_cast<float>(words.at[i] >> (32 - bits)) * (1.0f / (1u << bits));
}
__device__ inline void below_one(const Words& words, Numbers<double>& out, int bits) {
#pragma unroll
    for (int i = 0; i < 2; ++i) out.at[i] = static_cast<double>(words.pair(i) >> (64 - bits)) * (1.0 / (1ull << bits));
}

// Uniform on (0, 1], for logarithms: down to 2^-33 and 2^-54.
__device__ inline void above_zero(const Words& words, Numbers<float>& out) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out.at[i] = static_cast<float>(words.at[i]) * 0x1p-32f + 0x1p-33f;
}
__device__ inline void above_zero(const Words& words, Numbers<double>& out) {
#pragma unroll
    for (int i = 0; i < 2; ++i) out.at[i] = static_cast<double>(words.pair(i) >> 11) * 0x1p-53 + 0x1p-54;
}

template <typename T> struct Uniform {
    static __device__ void make(const Words& words, Numbers<Wide<T>>& out) { below_one(words, out, UNIFORM_BITS<T>); }
};

template <typename T> struct Exponential {
    static __device__ void make(const Words& words, Numbers<Wide<T>>& out) {
        above_zero(words, out);
#pragma unroll
        for (Wide<T>& number : out.at) number = -log(number);
    }
};

// Of an angle in half turns; for float they share the reduction of the angle.
__device__ inline void sine_and_cosine(float angle, float& sine, float& cosine) { sincospif(angle, &sine, &cosine); }
__device__ inline void sine_and_cosine(double angle, double& sine, double& cosine) {
    sine = sinpi(angle), cosine = cospi(angle);
}

// Pairs of independent normal numbers from pairs of uniform ones (Box and Muller 1958).
template <typename T> struct Normal {
    static __device__ void make(const Words& words, Numbers<Wide<T>>& out) {
        Numbers<Wide<T>> turns;
        above_zero(words, out);
        below_one(words, turns, UNIFORM_BITS<Wide<T>>);
#pragma unroll
        for (int i = 0; i < 16 / sizeof(Wide<T>); i += 2) {
            const Wide<T> radius = sqrt(-2 * log(out.at[i]));
            Wide<T> sine, cosine;
            sine_and_cosine(2 * turns.at[i + 1], sine, cosine);
            out.at[i] = radius * cosine;
            out.at[i + 1] = radius * sine;
        }
    }
};

// This thread's numbers, written to `out` up to `size`; CuPy's memory is aligned to 512 bytes.
template <typename T, int WIDTH>
__device__ void store(const Strip<T, WIDTH>& numbers, T* out, long long first, long long size) {
    if (first + WIDTH <= size) numbers.store(out + first);
    else
#pragma unroll
        for (int i = 0; i < WIDTH; ++i)
            if (first + i < size) out[first + i] = numbers.at[i];
}

__device__ inline long long thread_number() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Writes to `out` what `make(seed, counter, strip)` gives for each counter from `start` on: COUNT elements. A thread uses
// COUNTERS_PER_THREAD of them, which share the keys of their rounds: instructions bound these kernels, not memory.
template <int COUNT, typename T, typename Make>
__device__ void fill(T* out, unsigned long long seed, unsigned long long start, const unsigned long long* live,
                     long long size, Make make) {
    refresh(live, seed, start);
#pragma unroll
    for (int own = 0; own < COUNTERS_PER_THREAD; ++own) {
        const long long place = (static_cast<long long>(blockIdx.x) * COUNTERS_PER_THREAD + own) * THREADS + threadIdx.x;
        if (place * COUNT >= size) return;
        Strip<T, COUNT> strip;
        make(seed, start + place, strip);
        store(strip, out, place * COUNT, size);
    }
}

// Numbers of the standard distribution times `scale` plus `shift`; half types are rounded once, after that.
template <template <typename> class Distribution, typename T>
__global__ void __launch_bounds__(THREADS)
random_numbers(T* out, unsigned long long seed, unsigned long long start, const unsigned long long* live, Wide<T> scale,
               Wide<T> shift, long long size) {
    constexpr int COUNT = 16 / sizeof(Wide<T>);
    fill<COUNT>(out, seed, start, live, size, [=](auto seed, auto counter, Strip<T, COUNT>& strip) {
        Numbers<Wide<T>> numbers;
        Distribution<T>::make(philox(seed, counter), numbers);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) strip.at[i] = static_cast<T>(numbers.at[i] * scale + shift);
    });
}

// Bit i: whether word i is below `threshold`, in [0, 2^32]; the masks of dropout.cu.
__global__ void __launch_bounds__(THREADS)
random_bits(bool* out, unsigned long long seed, unsigned long long start, const unsigned long long* live,
            long long threshold, long long size) {
    fill<4>(out, seed, start, live, size, [=](auto seed, auto counter, Strip<bool, 4>& bits) {
        const Words words = philox(seed, counter);
#pragma unroll
        for (int i = 0; i < 4; ++i) bits.at[i] = words.at[i] < threshold;
    });
}

// low + a uniform integer below `range` (Lemire 2019): the upper word of its product with 64 random bits, which are
// redrawn if the lower word is below `uneven`, 2^64 modulo range. A range of 0 means 2^64.
__global__ void __launch_bounds__(THREADS)
random_integers(long long* out, unsigned long long seed, unsigned long long start, const unsigned long long* live,
                long long low, unsigned long long range, unsigned long long uneven, long long size) {
    fill<2>(out, seed, start, live, size, [=](auto seed, auto counter, Strip<long long, 2>& numbers) {
        const Words words = philox(seed, counter);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            unsigned long long bits = words.pair(i);
            for (unsigned long long turn = 1; bits * range < uneven; ++turn) bits = philox(seed, counter, turn).pair(i);
            numbers.at[i] = static_cast<long long>(low + (range == 0 ? bits : __umul64hi(bits, range)));
        }
    });
}

// log(n!) to 1e-9, by Stirling's series from 8 on. The compiler does not inline lgamma.
template <typename T> __device__ T log_factorial(T n) {
    T z = n + 1, below = 1;
#pragma unroll 1
    for (; z < 8; z += 1) below *= z;
    const T inverse = 1 / z, square = inverse * inverse;
    const T series = inverse * (T(1.0 / 12) - square * (T(1.0 / 360) - square * T(1.0 / 1260)));
    return (z - T(0.5)) * log(z) - z + T(0.91893853320467274178) + series - log(below);
}

// Poisson numbers: for small rates by the factors of a product, else by the transformed rejection method PTRS
// (Hoermann 1993). Number i uses counter start + i, with as many turns as it needs. A NaN or infinite rate is returned
// as it is, since its loop would not end.
template <typename T>
__global__ void __launch_bounds__(THREADS)
random_events(const T* rates, T* out, unsigned long long seed, unsigned long long start, const unsigned long long* live,
              long long size) {
    refresh(live, seed, start);
    const long long place = thread_number();
    if (place >= size) return;
    const T rate = rates[place], root = sqrt(rate), log_rate = log(rate), none = exp(-rate);
    const T b = T(0.931) + T(2.53) * root, a = T(-0.059) + T(0.02483) * b;
    const T inverse_alpha = T(1.1239) + T(1.1328) / (b - T(3.4)), squeeze = T(0.9277) - T(3.6224) / (b - 2);
    T events = isfinite(rate) ? 0 : rate, product = 1;
    bool found = !isfinite(rate);
    for (unsigned long long turn = 0; !found; ++turn) {
        Numbers<T> uniform;
        above_zero(philox(seed, start + place, turn), uniform);
        if (rate < 10) {
            for (int i = 0; i < 2 && !found; ++i) {
                product *= uniform.at[i];
                found = product <= none;
                if (!found) events += 1;
            }
            continue;
        }
        const T u = uniform.at[0] - T(0.5), v = uniform.at[1], us = T(0.5) - fabs(u);
        events = floor((2 * a / us + b) * u + rate + T(0.43));
        found = us >= T(0.07) && v <= squeeze;
        if (!found && events >= 0 && (us >= T(0.013) || v <= us))
            found = log(v * inverse_alpha / (a / (us * us) + b)) <= events * log_rate - rate - log_factorial(events);
    }
    out[place] = events;
}

// Gamma-distributed numbers of scale 1 (Marsaglia and Tsang 2000). For alpha < 1 the number is that of alpha + 1 times
// u^(1 / alpha). Number i uses counter start + i, with two turns for each trial: a normal number, then two uniform ones.
// NaN for a negative alpha; 0, infinity and NaN are returned as they are.
template <typename T>
__global__ void __launch_bounds__(THREADS)
random_gammas(const T* alphas, T* out, unsigned long long seed, unsigned long long start,
              const unsigned long long* live, long long size) {
    refresh(live, seed, start);
    const long long place = thread_number();
    if (place >= size) return;
    const T alpha = alphas[place], d = (alpha < 1 ? alpha + 1 : alpha) - T(1.0 / 3), c = 1 / sqrt(9 * d);
    bool found = !(alpha > 0 && isfinite(alpha));
    T number = alpha < 0 ? sqrt(alpha) : alpha;
    for (unsigned long long turn = 0; !found; turn += 2) {
        Numbers<T> normal, uniform;
        Normal<T>::make(philox(seed, start + place, turn), normal);
        above_zero(philox(seed, start + place, turn + 1), uniform);
        const T x = normal.at[0], root = 1 + c * x, v = root * root * root;
        found = root > 0 && log(uniform.at[0]) < x * x / 2 + d * (1 - v + log(v));
        number = d * v;
        if (alpha < 1) number *= exp(log(uniform.at[1]) / alpha);
    }
    out[place] = number;
}

// Numbers of successes: below an expectation of 10 by the trials up to each success, else by the transformed rejection
// method BTRS (Hoermann 1993), for the rarer outcome. Number i uses counter start + i, with as many turns as it needs.
// NaN if the count is not finite or the probability is NaN.
template <typename T>
__global__ void __launch_bounds__(THREADS)
random_successes(const T* counts, const T* probabilities, T* out, unsigned long long seed, unsigned long long start,
                 const unsigned long long* live, long long size) {
    refresh(live, seed, start);
    const long long place = thread_number();
    if (place >= size) return;
    const T count = floor(counts[place]), probability = probabilities[place];
    const bool flipped = probability > T(0.5), valid = isfinite(count) && probability == probability;
    const T p = flipped ? 1 - probability : probability, spread = sqrt(count * p * (1 - p));
    const T b = T(1.15) + T(2.53) * spread, a = T(-0.0873) + T(0.0248) * b + T(0.01) * p;
    const T height = (T(2.83) + T(5.1) / b) * spread, squeeze = T(0.92) - T(4.2) / b;
    const T log_failure = log1p(-p), log_odds = log(p) - log_failure, mode = floor((count + 1) * p);
    bool found = !(valid && count > 0 && p > 0);
    T successes = 0, trials = 0;
    for (unsigned long long turn = 0; !found; ++turn) {
        Numbers<T> uniform;
        above_zero(philox(seed, start + place, turn), uniform);
        if (count * p < 10) {
            for (int i = 0; i < 2 && !found; ++i) {
                trials += floor(log(uniform.at[i]) / log_failure) + 1;
                found = trials > count;
                if (!found) successes += 1;
            }
            continue;
        }
        const T u = uniform.at[0] - T(0.5), v = uniform.at[1], us = T(0.5) - fabs(u);
        successes = floor((2 * a / us + b) * u + count * p + T(0.5));
        found = us >= T(0.07) && v <= squeeze;
        if (!found && successes >= 0 && successes <= count)
            found = log(v * height / (a / (us * us) + b)) <=
                    log_factorial(mode) + log_factorial(count - mode) - log_factorial(successes) -
                        log_factorial(count - successes) + (successes - mode) * log_odds;
    }
    out[place] = !valid ? count * 0 + probability - probability : flipped && count > 0 ? count - successes : successes;
}
