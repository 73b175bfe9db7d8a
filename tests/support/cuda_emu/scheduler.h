// What a kernel file needs of the scheduler (scheduler.cpp).
#pragma once

#include "state.h"

// What Python finds by name
#define EMU_EXPORT extern "C" __attribute__((visibility("default")))

namespace emu {

// Waits for every thread that has not finished, and returns how many of them voted yes.
int barrier(const Site& site, bool vote = false);

using Finish = void (*)(Thread* lanes, unsigned mask);

// Waits until every lane of `mask` is at this call; the last one runs `finish`, which fills in everyone's result.
uint64_t meet(const Site& site, unsigned mask, uint64_t value, int from, Finish finish);

template <class F> void each_lane(unsigned mask, F f) {
    for (; mask; mask &= mask - 1) f(__builtin_ctz(mask));
}

// A row of the table of kernels
struct Entry {
    const char* name;
    void (*run)(void** arguments);
    int max_threads, count;
    const int *kind, *size, *floating;
};

}  // namespace emu
