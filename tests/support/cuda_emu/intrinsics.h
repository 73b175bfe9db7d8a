// Atomics, cached loads and stores, and the arithmetic that CUDA has and C++ lacks.
#pragma once

#include <math.h>
#include <stdio.h>

#include <limits>

#include "warp.h"

struct __half;
struct __half2;
struct __nv_bfloat16;
struct __nv_bfloat162;

namespace emu {

// Atomics. One OS thread runs everything, so a plain update is atomic; the race checker is told that it is one.

template <class T> struct Same { using type = T; };
template <class T> using Value = typename Same<T>::type;      // not deduced: atomicAdd(float*, 1) converts, as in CUDA

template <class T, class... Allowed> constexpr bool one_of = (std::is_same_v<T, Allowed> || ...);

template <class T, class Op>
__attribute__((noinline, no_sanitize("thread"))) T update(T* address, Op op) {
#ifdef EMU_RACES
    emu_touch(address, sizeof(T), true, true, __builtin_return_address(0));
#endif
    T old = *address;
    *address = op(old);
    return old;
}

// Always inlined, so that the return address in update() lies in the kernel.
#define EMU_ATOMIC(name, expression, ...)                                                                \
    template <class T> __attribute__((always_inline)) inline T name(T* address, emu::Value<T> value) {   \
        static_assert(emu::one_of<T, __VA_ARGS__>, #name " has no overload for this type");              \
        return emu::update(address, [=](T old) { return T(expression); });                               \
    }

}  // namespace emu

EMU_ATOMIC(atomicAdd, old + value, int, unsigned, unsigned long long, float, double, __half, __half2, __nv_bfloat16,
           __nv_bfloat162)
EMU_ATOMIC(atomicSub, old - value, int, unsigned)
EMU_ATOMIC(atomicExch, value, int, unsigned, unsigned long long, float)
EMU_ATOMIC(atomicMin, value < old ? value : old, int, unsigned, long long, unsigned long long)
EMU_ATOMIC(atomicMax, old < value ? value : old, int, unsigned, long long, unsigned long long)
EMU_ATOMIC(atomicAnd, old & value, int, unsigned, unsigned long long)
EMU_ATOMIC(atomicOr, old | value, int, unsigned, unsigned long long)
EMU_ATOMIC(atomicXor, old ^ value, int, unsigned, unsigned long long)
EMU_ATOMIC(atomicInc, old >= value ? 0 : old + 1, unsigned)
EMU_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1, unsigned)

template <class T>
__attribute__((always_inline)) inline T atomicCAS(T* address, emu::Value<T> compare, emu::Value<T> value) {
    static_assert(emu::one_of<T, int, unsigned, unsigned long long, unsigned short>,
                  "atomicCAS has no overload for this type");
    return emu::update(address, [=](T old) { return old == compare ? value : old; });
}

// Loads and stores with a cache hint

#define EMU_LOAD(name) \
    template <class T> inline T name(const T* address) { return *address; }
#define EMU_STORE(name) \
    template <class T> inline void name(T* address, emu::Value<T> value) { *address = value; }
EMU_LOAD(__ldg)
EMU_LOAD(__ldca)
EMU_LOAD(__ldcg)
EMU_LOAD(__ldcs)
EMU_LOAD(__ldlu)
EMU_LOAD(__ldcv)
EMU_STORE(__stwb)
EMU_STORE(__stcg)
EMU_STORE(__stcs)
EMU_STORE(__stwt)

inline void __threadfence() { emu::state.fenced = true; }
inline void __threadfence_system() { emu::state.fenced = true; }
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) {}
inline long long clock64() { return ++emu::state.ticks; }

// Bits

#define EMU_CAST(name, From, To) \
    inline To name(From value) { return emu::from_bits<To>(emu::to_bits(value)); }
EMU_CAST(__float_as_int, float, int)
EMU_CAST(__float_as_uint, float, unsigned)
EMU_CAST(__int_as_float, int, float)
EMU_CAST(__uint_as_float, unsigned, float)
EMU_CAST(__double_as_longlong, double, long long)
EMU_CAST(__longlong_as_double, long long, double)

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
    return unsigned(((uint64_t(high) << 32 | low) << (n & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
    return unsigned((uint64_t(high) << 32 | low) >> (n & 31));
}

// Arithmetic with the rounding in the name. Fast versions have full precision here.

#define EMU_BINARY(name, T, operation) \
    inline T name(T a, T b) { return a operation b; }
EMU_BINARY(__fadd_rn, float, +)
EMU_BINARY(__fsub_rn, float, -)
EMU_BINARY(__fmul_rn, float, *)
EMU_BINARY(__fdiv_rn, float, /)
EMU_BINARY(__fdividef, float, /)
EMU_BINARY(__dadd_rn, double, +)
EMU_BINARY(__dsub_rn, double, -)
EMU_BINARY(__dmul_rn, double, *)
EMU_BINARY(__ddiv_rn, double, /)
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return float(1 / sqrt(double(x))); }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }

// Float to integer saturates on the device, and NaN becomes 0.
namespace emu {
template <class To> To saturate(double x) {
    using limits = std::numeric_limits<To>;
    return isnan(x) ? 0 : x <= limits::min() ? limits::min() : x >= limits::max() ? limits::max() : To(x);
}
}  // namespace emu
inline int __float2int_rn(float x) { return emu::saturate<int>(rintf(x)); }
inline int __float2int_rz(float x) { return emu::saturate<int>(truncf(x)); }
inline int __float2int_rd(float x) { return emu::saturate<int>(floorf(x)); }
inline int __float2int_ru(float x) { return emu::saturate<int>(ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return emu::saturate<unsigned>(rintf(x)); }
inline unsigned __float2uint_rz(float x) { return emu::saturate<unsigned>(truncf(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }

// Macros, because the C library has some of these names too, or will have.
namespace emu {
inline float rsqrtf(float x) { return __frsqrt_rn(x); }
inline double rsqrt(double x) { return 1 / ::sqrt(x); }
inline float rcbrtf(float x) { return 1 / ::cbrtf(x); }
inline float sinpif(float x) { return float(::sin(M_PI * ::remainder(double(x), 2.0))); }
inline float cospif(float x) { return float(::cos(M_PI * ::remainder(double(x), 2.0))); }
inline float sinpi(float x) { return sinpif(x); }
inline float cospi(float x) { return cospif(x); }
inline double sinpi(double x) { return ::sin(M_PI * ::remainder(x, 2.0)); }
inline double cospi(double x) { return ::cos(M_PI * ::remainder(x, 2.0)); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }
inline float normcdff(float x) { return float(0.5 * ::erfc(-double(x) * M_SQRT1_2)); }
inline double normcdf(double x) { return 0.5 * ::erfc(-x * M_SQRT1_2); }
}  // namespace emu
#define rsqrtf emu::rsqrtf
#define rsqrt emu::rsqrt
#define rcbrtf emu::rcbrtf
#define sinpif emu::sinpif
#define cospif emu::cospif
#define sinpi emu::sinpi
#define cospi emu::cospi
#define sincospif emu::sincospif
#define normcdff emu::normcdff
#define normcdf emu::normcdf
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __sincosf sincosf
#define __tanhf tanhf

template <class A, class B>
using emu_common = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, decltype(A() + B())>;
template <class A, class B> inline emu_common<A, B> min(A a, B b) {
    using T = emu_common<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmin(T(a), T(b));
    else return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> inline emu_common<A, B> max(A a, B b) {
    using T = emu_common<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmax(T(a), T(b));
    else return T(a) < T(b) ? T(b) : T(a);
}

// What cuda_fp16.h and cuda_bf16.h declare for the device only

namespace emu {
template <class H> using Half = std::enable_if_t<one_of<H, __half, __nv_bfloat16>, H>;
template <class H> using Half2 = std::enable_if_t<one_of<H, __half2, __nv_bfloat162>, H>;
}  // namespace emu

template <class H> inline emu::Half<H> __hfma(H a, H b, H c) {
    return H(double(float(a)) * double(float(b)) + double(float(c)));
}
template <class H> inline emu::Half2<H> __hfma2(H a, H b, H c) {
    return H(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
#define EMU_HALF_FUNCTION(name, function) \
    template <class H> inline emu::Half<H> name(H x) { return H(function(float(x))); }
EMU_HALF_FUNCTION(hexp, expf)
EMU_HALF_FUNCTION(hexp2, exp2f)
EMU_HALF_FUNCTION(hlog, logf)
EMU_HALF_FUNCTION(hlog2, log2f)
EMU_HALF_FUNCTION(hsqrt, sqrtf)
EMU_HALF_FUNCTION(hrsqrt, rsqrtf)
EMU_HALF_FUNCTION(hrcp, __frcp_rn)
EMU_HALF_FUNCTION(hsin, sinf)
EMU_HALF_FUNCTION(hcos, cosf)
EMU_HALF_FUNCTION(htanh, tanhf)
EMU_HALF_FUNCTION(hfloor, floorf)
EMU_HALF_FUNCTION(hceil, ceilf)
EMU_HALF_FUNCTION(hrint, rintf)

// Traps

#define __trap() emu::fail(emu::Failure::other, "block " EMU_INDEX " thread " EMU_INDEX " calls __trap() at %s:%d", \
                           EMU_XYZ(blockIdx), EMU_XYZ(threadIdx), __FILE__, __LINE__)
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition)                                                                                             \
    ((condition) ? (void)0                                                                                            \
                 : emu::fail(emu::Failure::other, "device-side assert triggered: block " EMU_INDEX " thread "         \
                             EMU_INDEX ": %s at %s:%d", EMU_XYZ(blockIdx), EMU_XYZ(threadIdx), #condition, __FILE__,  \
                             __LINE__))
#endif
