// The derivative of a gamma-distributed number by its shape parameter, at a fixed quantile. backend/cpu/gamma_slope.py
// says by which formulas.

// The derivative of log(gamma(x)) for x > 0.
__device__ inline double digamma(double x) {
    double below = 0;
#pragma unroll 1
    for (; x < 10; x += 1) below += 1 / x;
    const double q = 1 / (x * x);
    const double series = q * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q * (1.0 / 240 - q / 132))));
    return log(x) - 0.5 / x - series - below;
}

__device__ inline double slope_by_series(double a, double log_z) {
    const double z = exp(log_z);
    double term = 1, harmonic = 0, total = 1, slopes = 0, slope = 1;
#pragma unroll 1
    for (int n = 1; n < 200 && slope > 1e-17 * slopes; ++n) {
        const double step = 1 / (a + n);
        term *= z * step;
        harmonic += step;
        total += term;
        slope = term * harmonic;
        slopes += slope;
    }
    return (slopes - (log_z - digamma(a + 1)) * total) / a;
}

__device__ inline double slope_by_continued_fraction(double a, double log_z) {
    const double z = exp(log_z);
    double r = z + 101 - a, slope = -1;
#pragma unroll 1
    for (int n = 50; n > 0; --n) {
        const double inverse = 1 / r, part = n * (a - n) * inverse;
        slope = (n - part * slope) * inverse - 1;
        r = part + (z + (2 * n - 1) - a);
    }
    return (log_z - digamma(a) - slope / r) / r;
}

// The polynomial of these coefficients, from the lowest power.
template <int N> __device__ double polynomial(const double (&coefficients)[N], double x) {
    double sum = coefficients[N - 1];
#pragma unroll
    for (int i = N - 2; i >= 0; --i) sum = sum * x + coefficients[i];
    return sum;
}

__device__ inline double slope_by_temme(double a, double gap) {
    const double excess = expm1(gap), eta = copysign(sqrt(2 * fmax(excess - gap, 0.0)), gap), q = 1 / a;
    const double bend = gap - excess;
    const double c0 = polynomial({-1.0 / 3, 1.0 / 12, -0.014814814814814815, 0.0011574074074074073,
                                  0.00035273368606701942, -0.0001787551440329218, 3.9192631785224377e-05,
                                  -2.185448510679992e-06, -1.85406221071516e-06, 8.2967113409530865e-07,
                                  -1.7665952736826078e-07}, eta);
    const double c1 = polynomial({-1.0 / 540, -1.0 / 288, 0.0026455026455026454, -0.00099022633744855963,
                                  0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05,
                                  7.6491609160811098e-06, -1.6120900894563446e-06}, eta);
    const double c2 = polynomial({0.0041335978835978834, -0.0026813271604938273, 0.0007716049382716049,
                                  2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
                                  -1.2760635188618728e-05}, eta);
    const double c3 = polynomial({0.00064943415637860077, 0.00022947209362139917, -0.0004691894943952557,
                                  0.00026772063206283885, -7.5618016718839766e-05}, eta);
    const double c4 = polynomial({-0.00086188829091671173, 0.00078403922172006662, -0.00029907248030319018}, eta);
    const double first = excess == 0 ? 0 : gap / excess - 1;
    const double total = first + q * (bend * c1 - 0.5 * c0 + q * (bend * c2 - 1.5 * c1 +
                         q * (bend * c3 - 2.5 * c2 + q * (bend * c4 - 3.5 * c3))));
    const double stirling = polynomial({1.0, 1.0 / 12, 1.0 / 288, -139.0 / 51840, -571.0 / 2488320}, q);
    return (stirling * total + 1) * q;
}

__device__ inline double slope_of_log(double a, double log_z) {
    const double gap = log_z - log(a);
    if (!(a > 0)) return a - a + log(-1.0);
    if (a >= 100 && fabs(gap) < 0.3) return slope_by_temme(a, gap);
    return exp(log_z) <= fmax(a, 1.5) ? slope_by_series(a, log_z) : slope_by_continued_fraction(a, log_z);
}

// dz/dalpha; with LOGS, d log(z) / dalpha, and `z` holds logarithms. NaN unless alpha > 0. `out` may be `alpha` or `z`.
// T is double: in float the logarithms would lose the digits that they have in common.
template <bool LOGS, typename T>
__global__ void __launch_bounds__(THREADS)
gamma_slope(const T* alpha, const T* z, T* out, long long size) {
    const long long place = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (place >= size) return;
    const T number = z[place], log_z = LOGS ? number : log(fmax(number, 2.2250738585072014e-308));
    const T slope = slope_of_log(alpha[place], log_z);
    out[place] = LOGS ? slope : number * slope;
}
