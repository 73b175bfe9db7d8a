// Range reduction for sinpi and cospi. sin and cos reduce large angles in a stack array, which slows down small ones,
// too.
#pragma once

// 1 / pi in words of 64 bits, after one word of zeros.
__constant__ const unsigned long long INVERSE_PI[] = {
    0x0000000000000000ull, 0x517cc1b727220a94ull, 0xfe13abe8fa9a6ee0ull, 0x6db14acc9e21c820ull, 0xff28b1d5ef5de2b0ull,
    0xdb92371d2126e970ull, 0x0324977504e8c90eull, 0x7f0ef58e5894d39full, 0x74411afa975da242ull, 0x74ce38135a2fbf20ull,
    0x9cc8eb1cc1a99cfaull, 0x4e422fc5defc941dull, 0x8ffc4bffef02cc07ull, 0xf79788c5ad05368full, 0xb69b3f6793e584dbull,
    0xa7a31fb34f2ff516ull, 0xba93dd63f5f2f8bdull, 0x9e839cfbc5294975ull, 0x35fdafd88fc6ae84ull,
};

// The bit fields of a floating-point type; 1 / pi as the sum of two numbers, accurate for angles below LARGE.
template <typename W> struct Angle;
template <> struct Angle<float> {
    static constexpr int DIGITS = 23, BIAS = 126;
    static constexpr float LARGE = 65536.0f, HIGH = 0x1.45f306p-2f, LOW = 0x1.b9391p-27f;
    static __device__ unsigned long long bits(float x) { return __float_as_uint(x); }
};
template <> struct Angle<double> {
    static constexpr int DIGITS = 52, BIAS = 1022;
    static constexpr double LARGE = 0x1p40, HIGH = 0x1.45f306dc9c883p-2, LOW = -0x1.6b01ec5417056p-56;
    static __device__ unsigned long long bits(double x) { return __double_as_longlong(x); }
};

// large / pi modulo 2, in [-1, 1]; large is positive and finite (Payne and Hanek 1983).
//
// 1. large = mantissa * 2^(exponent - 64), and the mantissa's highest bit is set.
// 2. Of 1 / pi, bits above a window contribute multiples of 2, and those below it nothing significant.
// 3. mantissa * window modulo 2^64 is the result in units of 2^-63, as a number with a sign.
template <typename W> __device__ W large_half_turns(W large) {
    using A = Angle<W>;
    const unsigned long long bits = A::bits(large), one = 1ull << A::DIGITS;
    const unsigned long long mantissa = ((bits & (one - 1)) | one) << (63 - A::DIGITS);
    const int place = static_cast<int>(bits >> A::DIGITS) - A::BIAS - 1;
    const unsigned long long* word = INVERSE_PI + place / 64;
    const int shift = place % 64, rest = 63 - shift;
    const unsigned long long high = word[0] << shift | word[1] >> 1 >> rest;
    const unsigned long long low = word[1] << shift | word[2] >> 1 >> rest;
    const unsigned long long product = mantissa * high + __umul64hi(mantissa, low);
    return static_cast<W>(static_cast<long long>(product)) * static_cast<W>(0x1p-63);
}

// angle / pi modulo 2: sinpi and cospi of it are the sine and the cosine of the angle in radians.
template <typename W> __device__ W half_turns(W angle) {
    using A = Angle<W>;
    const W size = fabs(angle);
    if (size < A::LARGE) {
        const W turns = angle * A::HIGH;
        const W rest = fma(angle, A::HIGH, -turns) + angle * A::LOW;
        return turns - 2 * rint(turns / 2) + rest;
    }
    if (!(size - size == 0)) return size - size;  // NaN, of infinity too
    return angle < 0 ? -large_half_turns(size) : large_half_turns(size);
}
