// The formats of quantized arrays, their conversions, and the scales that bring values into their range.
//
// A format has
//   Code               the type of a code
//   LARGEST            its largest value; EXPONENT is that value's exponent
//   DIGITS             the number of mantissa bits
//   UNSCALED           an array whose largest absolute value is in [UNSCALED, LARGEST] needs no scale
//   encode(x, limit)   the code of a value, rounded to nearest even; finite values beyond the limit saturate
//   decode(c)          the value of a code
// autograd_gpu/backend/quantization/formats.py has the same numbers and explains them.
#pragma once
#include "types.cuh"

// The bit fields of a floating-point type.
template <typename W> struct Parts;
template <> struct Parts<float> {
    using Bits = unsigned;
    static constexpr int DIGITS = 23, BIAS = 127;
    static constexpr float LARGEST = 0x1.fffffep127f;
    static __device__ Bits bits(float x) { return __float_as_uint(x); }
    static __device__ float number(Bits bits) { return __uint_as_float(bits); }
};
template <> struct Parts<double> {
    using Bits = unsigned long long;
    static constexpr int DIGITS = 52, BIAS = 1023;
    static constexpr double LARGEST = 0x1.fffffffffffffp1023;
    static __device__ Bits bits(double x) { return __double_as_longlong(x); }
    static __device__ double number(Bits bits) { return __longlong_as_double(bits); }
};

template <typename W> __device__ W saturated(W x, W limit) {
    return fabs(x) > limit && fabs(x) <= Parts<W>::LARGEST ? copysign(limit, x) : x;
}

struct Float16 {
    using Code = __half;
    static constexpr float LARGEST = 65504.0f, UNSCALED = 0x1p10f;
    static constexpr int EXPONENT = 15, DIGITS = 10;
    template <typename W> static __device__ Code encode(W x, W limit) { return static_cast<Code>(saturated(x, limit)); }
    static __device__ float decode(Code code) { return widen(code); }
};

struct BFloat16 {
    using Code = __nv_bfloat16;
    static constexpr float LARGEST = 0x1.fep127f, UNSCALED = 0x1p-100f;
    static constexpr int EXPONENT = 127, DIGITS = 7;
    template <typename W> static __device__ Code encode(W x, W limit) {
        return static_cast<Code>(static_cast<float>(saturated(x, limit)));
    }
    static __device__ float decode(Code code) { return widen(code); }
};

// The float8 code of a float, with the format's codes for infinity and NaN.
//
// 1. The float 2^KEPT times the number's power of two, or that of the smallest normal number, has a last bit of the
//    same value as the code's last bit: adding it rounds the number to nearest even.
// 2. The sum minus that float counts units of the last bit, beyond those of the lower exponents.
template <int DIGITS, int LOWEST>
__device__ unsigned char encode_float8(float x, float limit, unsigned infinity, unsigned nan) {
    constexpr int KEPT = 23 - DIGITS;
    constexpr unsigned SMALLEST = (LOWEST + 127) << 23, INFINITE = 0x7f800000;
    const unsigned bits = __float_as_uint(x), size = bits & 0x7fffffff, finite = min(size, __float_as_uint(limit));
    const unsigned power = max(finite & INFINITE, SMALLEST), unit = power + (KEPT << 23);
    const unsigned sum = __float_as_uint(__uint_as_float(finite) + __uint_as_float(unit)) - unit;
    unsigned code = sum + ((power - SMALLEST) >> KEPT);
    if (size >= INFINITE) code = size > INFINITE ? nan : infinity;
    return static_cast<unsigned char>(code | (bits >> 24 & 0x80));
}

// The codes of a double are those of the float that it rounds to, as in ml_dtypes.
template <int DIGITS, int LOWEST>
__device__ unsigned char encode_float8(double x, double limit, unsigned infinity, unsigned nan) {
    const float rounded = static_cast<float>(saturated(x, limit));
    return encode_float8<DIGITS, LOWEST>(rounded, static_cast<float>(limit), infinity, nan);
}

// Half preserves subnormals, which float flushes: a shifted float8 code is a half with the same sign and digits.
__device__ inline float half_of_bits(unsigned bits) {
    return static_cast<float>(__ushort_as_half(static_cast<unsigned short>(bits)));
}

struct E4M3 {
    using Code = unsigned char;
    static constexpr float LARGEST = 448, UNSCALED = 0x1p127f;
    static constexpr int EXPONENT = 8, DIGITS = 3;
    template <typename W> static __device__ Code encode(W x, W limit) {
        return encode_float8<DIGITS, -6>(x, limit, 0x7f, 0x7f);
    }
    static __device__ float decode(Code code) {
        const float value = half_of_bits((code & 0x80) << 8 | (code & 0x7f) << 7) * 256;
        return (code & 0x7f) == 0x7f ? __int_as_float(0x7fc00000) : value;
    }
};

struct E5M2 {
    using Code = unsigned char;
    static constexpr float LARGEST = 57344, UNSCALED = 0x1p127f;
    static constexpr int EXPONENT = 15, DIGITS = 2;
    template <typename W> static __device__ Code encode(W x, W limit) {
        return encode_float8<DIGITS, -14>(x, limit, 0x7c, 0x7e);
    }
    static __device__ float decode(Code code) { return half_of_bits(code << 8); }
};

template <typename T> constexpr int LAST_EXPONENT = Parts<Wide<T>>::BIAS;
template <> constexpr int LAST_EXPONENT<__half> = 15;

// The absolute value of a finite number, else 0.
template <typename W> __device__ W finite_size(W x) {
    const W size = fabs(x);
    return size <= Parts<W>::LARGEST ? size : 0;
}

// The scale for numbers of type T in the format F, given their largest finite absolute value: a power of two. `limit`
// is the largest code to use: less than F::LARGEST where rounding up would leave the range of T.
template <typename T, typename F> struct Scaling {
    using W = Wide<T>;
    W factor = 1, inverse = 1, limit = F::LARGEST;

    __device__ explicit Scaling(W largest) {
        using P = Parts<W>;
        if (largest == 0 || (F::UNSCALED <= largest && largest <= F::LARGEST)) return;
        constexpr typename P::Bits ONE = 1;
        const typename P::Bits bits = P::bits(largest), fraction = (ONE << P::DIGITS) - 1;
        const int exponent = static_cast<int>(bits >> P::DIGITS) - P::BIAS;
        const bool over = (bits & fraction) > (P::bits(F::LARGEST) & fraction);
        const int power = max(exponent - F::EXPONENT + over, 1 - P::BIAS);
        factor = P::number(static_cast<typename P::Bits>(P::BIAS + power) << P::DIGITS);
        inverse = P::number(static_cast<typename P::Bits>(P::BIAS - power) << P::DIGITS);
        if (over && exponent == LAST_EXPONENT<T>) limit = last_before_power();
    }

    // The largest value of F below 2^EXPONENT.
    static __device__ W last_before_power() {
        using P = Parts<W>;
        const int power = F::EXPONENT - 1 + P::BIAS;
        constexpr typename P::Bits ONE = 1;
        return P::number(static_cast<typename P::Bits>(power) << P::DIGITS |
                         ((ONE << F::DIGITS) - 1) << (P::DIGITS - F::DIGITS));
    }

    __device__ typename F::Code encode(T x) const { return F::encode(widen(x) * inverse, limit); }
};
