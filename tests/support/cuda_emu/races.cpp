// The race checker: the compiler calls a __tsan_* hook at every access of the kernel, and the hook compares the access
// with what each of its bytes has seen. Two accesses of one byte, at least one of them a write, are in order if
//   both are atomic, or both are of one thread,
//   or both are of one block, with a __syncthreads between them,
//   or both are of one warp, with a __syncwarp between them that names both lanes,
//   or they are of two blocks, and the first block released the second: an atomic of each on one address, the first
//   after a __threadfence. (That takes a block as a whole; only kernels that fence are judged so mildly.)
// This file itself is compiled without -fsanitize=thread.
#include <memory>
#include <set>
#include <unordered_map>

#include "state.h"

namespace emu {
namespace {

struct Access {
    const void* code;           // where in the kernel; null: no access yet
    uint32_t block, epoch, sync;
    uint16_t thread;
    bool atomic, write;
};

// The last access, and the last one by another thread than that.
struct Latest {
    Access one, other;

    void add(const Access& now) {
        if (one.block != now.block || one.thread != now.thread) other = one;
        one = now;
    }
};

struct Byte { Latest plain_writes, atomics, reads; };

constexpr uintptr_t page_size = 4096;
struct Page { Byte bytes[page_size]; };
std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;

std::unordered_map<const void*, std::set<uint32_t>> released;   // by the address of the atomic: blocks
std::set<uint32_t> acquired;                                    // blocks in order with the one that runs
uint32_t acquirer;

bool within(const char* p, const void* start, const void* end) { return p >= start && p < end; }

bool is_shared(const char* p) {
    return within(p, emu_shared_start, emu_shared_end) || within(p, state.dynamic_shared, state.arena + arena_bytes);
}

void synchronise(const void* address) {
    std::set<uint32_t>& blocks = released[address];
    acquired.insert(blocks.begin(), blocks.end());
    if (!state.fenced) return;
    blocks.insert(acquired.begin(), acquired.end());
    blocks.insert(state.block_number);
}

bool ordered(const Access& before, const Access& now, bool shared) {
    if (!before.code) return true;      // there was none
    if (before.block != now.block) return shared || acquired.count(before.block);   // shared: not the same memory
    if (before.thread == now.thread || before.epoch != now.epoch) return true;
    if (before.thread / warp_size != now.thread / warp_size) return false;
    return state.seen[now.thread][before.thread % warp_size] > before.sync;
}

[[noreturn]] void report(const Access& before, const Access& now, const void* address, bool shared) {
    uint3 block = unravel(now.block, state.grid), thread = unravel(now.thread, state.block);
    uint3 block2 = unravel(before.block, state.grid), thread2 = unravel(before.thread, state.block);
    fail(Failure::race, "data race in %s memory at %p: block " EMU_INDEX " thread " EMU_INDEX " %s%s @%p; before, and "
         "not in order with it, block " EMU_INDEX " thread " EMU_INDEX " %s%s @%p", shared ? "shared" : "global",
         address, EMU_XYZ(block), EMU_XYZ(thread), now.atomic ? "atomically " : "", now.write ? "writes" : "reads",
         now.code, EMU_XYZ(block2), EMU_XYZ(thread2), before.atomic ? "atomically " : "",
         before.write ? "wrote" : "read", before.code);
}

void touch_byte(const char* p, const Access& now, bool shared) {
    auto& page = pages[uintptr_t(p) / page_size];
    if (!page) page = std::make_unique<Page>();
    Byte& seen = page->bytes[uintptr_t(p) % page_size];
    auto check = [&](const Latest& latest) {
        for (const Access* before : {&latest.one, &latest.other})
            if (!ordered(*before, now, shared)) report(*before, now, p, shared);
    };
    check(seen.plain_writes);
    if (!now.atomic) check(seen.atomics);
    if (now.write) check(seen.reads);
    (now.atomic ? seen.atomics : now.write ? seen.plain_writes : seen.reads).add(now);
}

}  // namespace

// Bytes of global memory that the last launch read and wrote, counted access by access.
extern "C" __attribute__((visibility("default"))) uint64_t emu_traffic[2];
uint64_t emu_traffic[2];

extern "C" void emu_races_begin() {
    emu_traffic[0] = emu_traffic[1] = 0;
    pages.clear();
    released.clear();
    acquired.clear();
}

extern "C" void emu_touch(const void* address, size_t bytes, bool write, bool atomic, const void* code) {
    auto* p = static_cast<const char*>(address);
    if (!state.current || within(p, &state, &state + 1) || within(p, state.arena, state.arena + stacks_bytes)) return;
    state.code = static_cast<const char*>(code) - 1;    // the call, not the place that it returns to
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    (void)*static_cast<const volatile char*>(p);        // an illegal address faults here, before anything is recorded
    if (acquirer != state.block_number) acquired.clear();
    acquirer = state.block_number;
    if (atomic) synchronise(address);
    int thread = state.number(*state.current);
    Access now = {state.code, state.block_number, state.epoch, state.seen[thread][thread % warp_size], uint16_t(thread),
                  atomic, write};
    bool shared = is_shared(p);
    if (!shared) emu_traffic[write] += bytes;
    for (size_t i = 0; i < bytes; ++i) touch_byte(p + i, now, shared);
    state.code = nullptr;
}

}  // namespace emu

#define TOUCH(p, bytes, write) emu::emu_touch(p, bytes, write, false, __builtin_return_address(0))
#define HOOKS(bytes)                                                                        \
    extern "C" void __tsan_read##bytes(void* p) { TOUCH(p, bytes, false); }                 \
    extern "C" void __tsan_write##bytes(void* p) { TOUCH(p, bytes, true); }                 \
    extern "C" void __tsan_unaligned_read##bytes(void* p) { TOUCH(p, bytes, false); }       \
    extern "C" void __tsan_unaligned_write##bytes(void* p) { TOUCH(p, bytes, true); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

extern "C" void __tsan_read_range(void* p, size_t n) { TOUCH(p, n, false); }
extern "C" void __tsan_write_range(void* p, size_t n) { TOUCH(p, n, true); }
extern "C" void __tsan_init() {}
