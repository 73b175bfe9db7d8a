// What the emulator knows while a kernel runs: one block at a time, its threads, and where each of them waits.
#pragma once

#include "crt/host_defines.h"

#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <vector_types.h>

// The ends of static shared memory, and the room after it (shared.ld).
extern "C" char emu_shared_start[], emu_shared_end[];

namespace emu {

constexpr int max_threads = 1024, warp_size = 32;
constexpr size_t shared_room_bytes = 128 << 10;

// The arena: stacks for every thread of a block, each above an unreadable guard, then room for dynamic shared memory
// between two more guards.
constexpr size_t stack_bytes = 256 << 10, guard_bytes = 64 << 10, max_dynamic_bytes = 256 << 10;
constexpr size_t stacks_bytes = max_threads * (guard_bytes + stack_bytes);
constexpr size_t arena_bytes = stacks_bytes + guard_bytes + max_dynamic_bytes + guard_bytes;

// The call in the source at which threads meet. `id` tells two calls on one line apart.
struct Site {
    const char *call, *file;
    int line, id;
};

enum class Doing : char { ready, at_barrier, at_warp_call, finished };

struct Thread {
    uint3 index;
    Doing doing;
    void* context;              // its suspended stack; null before it has started
    Site site;                  // where it waits
    uint64_t value, result;     // what it hands in there, and what it gets back
    int from;                   // the lane whose value a shuffle asks for
    unsigned mask;
};

// Lanes of one warp on their way to one call with one mask.
struct Meeting {
    int site;
    unsigned mask, arrived;
};

struct Warp {
    Meeting meetings[warp_size];
    int open;
};

enum class Failure : int { none, deadlock, race, illegal_address, undefined, other };

struct State {
    uint3 thread_index, block_index;        // threadIdx and blockIdx of the thread that runs
    dim3 block, grid;
    Thread* current;                        // null while the emulator itself runs
    void* scheduler;                        // its suspended stack
    int count, live;                        // threads of a block; those that have not finished
    uint64_t ready[max_threads / 64];       // one bit for each position in the launch order
    int thread_at[max_threads], position_of[max_threads];
    Thread threads[max_threads];
    Warp warps[max_threads / warp_size];
    Site barrier;
    int at_barrier;
    void* idle[max_threads];                // suspended stacks that no thread needs
    int idle_count, stack_count;
    char *arena, *dynamic_shared;
    pthread_t launcher;                     // the OS thread that all of this runs on
    int interrupted;                        // SIGINT or SIGALRM, once it has come
    sigjmp_buf escape;
    char message[2048];
    long long ticks;                        // clock64

    // For the race checker
    uint32_t block_number, epoch;           // epoch: barriers that this block has passed
    uint32_t seen[max_threads][warp_size];  // the __syncwarp of each lane up to which memory is ordered for a thread
    bool fenced;                            // a thread of this block has called __threadfence
    const void* code;                       // the access that is being recorded

    int number(const Thread& t) const { return int(&t - threads); }
    int own_lane() const { return number(*current) % warp_size; }
};

extern State state __attribute__((visibility("hidden")));

inline uint3 unravel(uint32_t i, dim3 size) { return {i % size.x, i / size.x % size.y, i / size.x / size.y}; }

// Leaves the launch with a message. A code address in it is written "@0x..."; Python makes a line of the source of it.
[[noreturn]] void fail(Failure failure, const char* format, ...) __attribute__((format(printf, 2, 3)));

#define EMU_INDEX "(%u, %u, %u)"
#define EMU_XYZ(v) (v).x, (v).y, (v).z

// The race checker (races.cpp), which only its own build has.
extern "C" void emu_races_begin();
extern "C" void emu_touch(const void* address, size_t bytes, bool write, bool atomic, const void* code);

}  // namespace emu
