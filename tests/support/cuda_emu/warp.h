// Barriers and warp calls under their CUDA names. They are macros, so that each call knows its own place in the source.
#pragma once

#include <type_traits>

#include "scheduler.h"

namespace emu {

constexpr unsigned full_mask = 0xffffffff;

template <class T> uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8, "warp calls move values of at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, reinterpret_cast<char*>(&value), sizeof value);
    return bits;
}

// A value of the bytes that lie there.
template <class T> T load(const void* address) {
    alignas(T) char bytes[sizeof(T)];
    __builtin_memcpy(bytes, address, sizeof(T));
    return *reinterpret_cast<T*>(bytes);
}

template <class T> T from_bits(uint64_t bits) { return load<T>(&bits); }

// A lane that the mask does not name gives no value: whoever asks for it gets 0xFF bytes.
inline void finish_shuffle(Thread* lanes, unsigned mask) {
    each_lane(mask, [&](int i) {
        int from = lanes[i].from & (warp_size - 1);
        lanes[i].result = mask >> from & 1 ? lanes[from].value : ~uint64_t(0);
    });
}

template <class T> T shuffle(const Site& site, unsigned mask, T value, int from) {
    return from_bits<T>(meet(site, mask, to_bits(value), from, finish_shuffle));
}

template <class T> T shfl(const Site& site, unsigned mask, T value, int from, int width = warp_size) {
    int first = state.own_lane() & ~(width - 1);
    return shuffle(site, mask, value, first | (from & (width - 1)));
}

template <class T> T shfl_up(const Site& site, unsigned mask, T value, unsigned delta, int width = warp_size) {
    int lane = state.own_lane(), first = lane & ~(width - 1), from = lane - int(delta);
    return shuffle(site, mask, value, from < first ? lane : from);
}

template <class T> T shfl_down(const Site& site, unsigned mask, T value, unsigned delta, int width = warp_size) {
    int lane = state.own_lane(), last = lane | (width - 1), from = lane + int(delta);
    return shuffle(site, mask, value, from > last ? lane : from);
}

template <class T> T shfl_xor(const Site& site, unsigned mask, T value, int bits, int width = warp_size) {
    int lane = state.own_lane(), last = lane | (width - 1), from = lane ^ bits;
    return shuffle(site, mask, value, from > last ? lane : from);
}

// Shuffles and votes order no memory accesses; __syncwarp does.
inline void finish_syncwarp(Thread* lanes, unsigned mask) {
#ifdef EMU_RACES
    auto* seen = state.seen + state.number(*lanes);
    uint32_t latest[warp_size] = {};
    each_lane(mask, [&](int i) {
        ++seen[i][i];
        for (int k = 0; k < warp_size; ++k) latest[k] = latest[k] > seen[i][k] ? latest[k] : seen[i][k];
    });
    each_lane(mask, [&](int i) { __builtin_memcpy(seen[i], latest, sizeof latest); });
#endif
}

inline void syncwarp(const Site& site, unsigned mask = full_mask) { meet(site, mask, 0, 0, finish_syncwarp); }

inline void finish_ballot(Thread* lanes, unsigned mask) {
    unsigned votes = 0;
    each_lane(mask, [&](int i) { votes |= unsigned(lanes[i].value) << i; });
    each_lane(mask, [&](int i) { lanes[i].result = votes; });
}

inline unsigned ballot(const Site& site, unsigned mask, int vote) {
    return unsigned(meet(site, mask, vote != 0, 0, finish_ballot));
}

inline void finish_match(Thread* lanes, unsigned mask) {
    each_lane(mask, [&](int i) {
        lanes[i].result = 0;
        each_lane(mask, [&](int k) { lanes[i].result |= uint64_t(lanes[k].value == lanes[i].value) << k; });
    });
}

template <class T> unsigned match_any(const Site& site, unsigned mask, T value) {
    return unsigned(meet(site, mask, to_bits(value), 0, finish_match));
}

// Every lane that the block has: no code may rely on more.
inline unsigned active_mask() {
    int lanes = state.count - (state.number(*state.current) - state.own_lane());
    return lanes < warp_size ? (1u << lanes) - 1 : full_mask;
}

struct Add { template <class T> T operator()(T a, T b) const { return a + b; } };
struct And { template <class T> T operator()(T a, T b) const { return a & b; } };
struct Or { template <class T> T operator()(T a, T b) const { return a | b; } };
struct Xor { template <class T> T operator()(T a, T b) const { return a ^ b; } };
struct Min { template <class T> T operator()(T a, T b) const { return b < a ? b : a; } };
struct Max { template <class T> T operator()(T a, T b) const { return a < b ? b : a; } };

template <class Op, class T> T reduce(const Site& site, unsigned mask, T value) {
    static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>, "__reduce_*_sync take int or unsigned");
    return from_bits<T>(meet(site, mask, to_bits(value), 0, [](Thread* lanes, unsigned mask) {
        T total = from_bits<T>(lanes[__builtin_ctz(mask)].value);
        each_lane(mask & (mask - 1), [&](int i) { total = Op()(total, from_bits<T>(lanes[i].value)); });
        each_lane(mask, [&](int i) { lanes[i].result = to_bits(total); });
    }));
}

}  // namespace emu

#define EMU_SITE(call) (emu::Site{call, __FILE__, __LINE__, __COUNTER__})

#define __syncthreads() ((void)emu::barrier(EMU_SITE("__syncthreads")))
#define __syncthreads_count(vote) emu::barrier(EMU_SITE("__syncthreads_count"), (vote) != 0)
#define __syncthreads_or(vote) int(emu::barrier(EMU_SITE("__syncthreads_or"), (vote) != 0) != 0)
#define __syncthreads_and(vote) int(emu::barrier(EMU_SITE("__syncthreads_and"), (vote) == 0) == 0)
#define __syncwarp(...) emu::syncwarp(EMU_SITE("__syncwarp") __VA_OPT__(,) __VA_ARGS__)
#define __shfl_sync(...) emu::shfl(EMU_SITE("__shfl_sync"), __VA_ARGS__)
#define __shfl_up_sync(...) emu::shfl_up(EMU_SITE("__shfl_up_sync"), __VA_ARGS__)
#define __shfl_down_sync(...) emu::shfl_down(EMU_SITE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...) emu::shfl_xor(EMU_SITE("__shfl_xor_sync"), __VA_ARGS__)
#define __ballot_sync(mask, vote) emu::ballot(EMU_SITE("__ballot_sync"), mask, (vote) != 0)
#define __any_sync(mask, vote) int(emu::ballot(EMU_SITE("__any_sync"), mask, (vote) != 0) != 0)
#define __all_sync(mask, vote) int(emu::ballot(EMU_SITE("__all_sync"), mask, (vote) == 0) == 0)
#define __match_any_sync(mask, value) emu::match_any(EMU_SITE("__match_any_sync"), mask, value)
#define __reduce_add_sync(mask, value) emu::reduce<emu::Add>(EMU_SITE("__reduce_add_sync"), mask, value)
#define __reduce_min_sync(mask, value) emu::reduce<emu::Min>(EMU_SITE("__reduce_min_sync"), mask, value)
#define __reduce_max_sync(mask, value) emu::reduce<emu::Max>(EMU_SITE("__reduce_max_sync"), mask, value)
#define __reduce_and_sync(mask, value) emu::reduce<emu::And>(EMU_SITE("__reduce_and_sync"), mask, value)
#define __reduce_or_sync(mask, value) emu::reduce<emu::Or>(EMU_SITE("__reduce_or_sync"), mask, value)
#define __reduce_xor_sync(mask, value) emu::reduce<emu::Xor>(EMU_SITE("__reduce_xor_sync"), mask, value)
#define __activemask() emu::active_mask()
