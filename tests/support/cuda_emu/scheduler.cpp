// Runs a kernel: blocks one after the other, the threads of a block as fibres of one OS thread.
//
// 1. A fibre takes the next ready thread and runs the kernel for it, start to end: one plain call.
// 2. A thread that must wait (barrier, warp call) keeps that stack. The first ready thread in launch order goes on: on
//    its own stack if it has one, else the scheduler gives it an idle or a new fibre.
// 3. Nobody ready and somebody unfinished: a deadlock, reported with the places where threads wait.
// 4. A fault, a failed check or an interrupt jumps out of the launch; its fibres are simply forgotten.
//
// It is compiled once for each build, and linked to every kernel file: it takes longer than most of them.
#include <vector>

#include "faults.h"
#include "fibres.h"
#include "scheduler.h"

namespace emu {

State state;

// Which thread is next

static void make_ready(Thread& t) {
    int position = state.position_of[state.number(t)];
    t.doing = Doing::ready;
    state.ready[position / 64] |= uint64_t(1) << position % 64;
}

static Thread* first_ready() {
    for (int word = 0; word < (state.count + 63) / 64; ++word)
        if (state.ready[word])
            return &state.threads[state.thread_at[64 * word + __builtin_ctzll(state.ready[word])]];
    return nullptr;
}

static void make_current(Thread& t) {
    if (state.interrupted) fail(Failure::other, "interrupted");
    int position = state.position_of[state.number(t)];
    state.ready[position / 64] &= ~(uint64_t(1) << position % 64);
    state.current = &t;
    state.thread_index = t.index;
}

static void suspend() {
    Thread& me = *state.current;
    Thread* next = first_ready();
    if (next && next->context) {
        make_current(*next);
        if (next != &me) switch_fibre(&me.context, next->context);
    } else {
        state.current = nullptr;
        switch_fibre(&me.context, state.scheduler);
    }
}

// Barriers

static void release_barrier() {
    uint64_t votes = 0;
    for (int i = 0; i < state.count; ++i)
        if (state.threads[i].doing == Doing::at_barrier) votes += state.threads[i].value;
    for (int i = 0; i < state.count; ++i) {
        if (state.threads[i].doing != Doing::at_barrier) continue;
        state.threads[i].result = votes;
        make_ready(state.threads[i]);
    }
    state.at_barrier = 0;
    ++state.epoch;
}

int barrier(const Site& site, bool vote) {
    Thread& me = *state.current;
    if (state.at_barrier && state.barrier.id != site.id)
        fail(Failure::deadlock, "divergent barrier: block " EMU_INDEX " thread " EMU_INDEX " is in %s at %s:%d, and %d "
             "other thread(s) in %s at %s:%d", EMU_XYZ(state.block_index), EMU_XYZ(me.index), site.call, site.file,
             site.line, state.at_barrier, state.barrier.call, state.barrier.file, state.barrier.line);
    state.barrier = me.site = site;
    me.value = vote;
    me.doing = Doing::at_barrier;
    if (++state.at_barrier == state.live) release_barrier();
    suspend();
    return int(me.result);
}

// Warp calls

// The meeting of one warp at this call with this mask; a new one if nobody is there yet.
static Meeting& meeting(Warp& warp, int site, unsigned mask) {
    for (int i = 0; i < warp.open; ++i)
        if (warp.meetings[i].site == site && warp.meetings[i].mask == mask) return warp.meetings[i];
    return warp.meetings[warp.open++] = {site, mask, 0};
}

uint64_t meet(const Site& site, unsigned mask, uint64_t value, int from, Finish finish) {
    Thread& me = *state.current;
    int number = state.number(me), lane = number % warp_size;
    if (!(mask >> lane & 1))
        fail(Failure::undefined, "block " EMU_INDEX " thread " EMU_INDEX " calls %s at %s:%d with mask %#x, which does "
             "not name its own lane %d", EMU_XYZ(state.block_index), EMU_XYZ(me.index), site.call, site.file, site.line,
             mask, lane);
    me.site = site, me.mask = mask, me.value = value, me.from = from;
    me.doing = Doing::at_warp_call;

    Warp& warp = state.warps[number / warp_size];
    Meeting& here = meeting(warp, site.id, mask);
    here.arrived |= 1u << lane;
    if (here.arrived == mask) {
        Thread* lanes = &me - lane;
        finish(lanes, mask);
        each_lane(mask, [&](int i) { make_ready(lanes[i]); });
        here = warp.meetings[--warp.open];
    }
    suspend();
    return me.result;
}

// Blocks

static const Entry* kernel;
static void** arguments;

// The body of every fibre. The thread that it works for is state.current.
static void work() {
    for (;;) {
        kernel->run(arguments);
        state.current->doing = Doing::finished;
        state.current = nullptr;
        if (--state.live && state.at_barrier == state.live) release_barrier();
        Thread* next = first_ready();
        if (next && !next->context)
            make_current(*next);
        else
            switch_fibre(&state.idle[state.idle_count++], state.scheduler);
    }
}

// The threads that wait: a line for each of the first 8 calls at which they do.
[[noreturn]] static void report_deadlock() {
    char text[1536] = "";
    size_t length = 0;
    auto append = [&](const char* format, auto... values) {
        if (length < sizeof text) length += snprintf(text + length, sizeof text - length, format, values...);
    };
    int told[8], lines = 0;
    for (int i = 0; i < state.count && lines < 8; ++i) {
        Thread& t = state.threads[i];
        bool known = t.doing == Doing::finished;
        for (int k = 0; k < lines; ++k) known |= told[k] == t.site.id;
        if (known) continue;
        told[lines++] = t.site.id;
        int here = 0;
        for (int k = i; k < state.count; ++k)
            here += state.threads[k].doing != Doing::finished && state.threads[k].site.id == t.site.id;
        append("\n  %d in %s at %s:%d, the first is thread " EMU_INDEX, here, t.site.call, t.site.file, t.site.line,
               EMU_XYZ(t.index));
        if (t.doing != Doing::at_warp_call) continue;
        unsigned came = meeting(state.warps[i / warp_size], t.site.id, t.mask).arrived;
        append(", which waits for lanes %#x of mask %#x", t.mask & ~came, t.mask);
    }
    fail(Failure::deadlock, "deadlock in block " EMU_INDEX ": of %d threads, %d have finished and %d wait%s",
         EMU_XYZ(state.block_index), state.count, state.count - state.live, state.live, text);
}

static void run_block(size_t shared_bytes) {
    memset(emu_shared_start, 0xff, emu_shared_end - emu_shared_start);
    memset(state.dynamic_shared, 0xff, shared_bytes);
    memset(state.warps, 0, sizeof state.warps);
#ifdef EMU_RACES
    memset(state.seen, 0, sizeof state.seen);
    state.fenced = false;
#endif
    state.live = state.count;
    state.at_barrier = 0;
    state.epoch = 0;
    for (int i = 0; i < state.count; ++i) {
        state.threads[i].context = nullptr;
        make_ready(state.threads[i]);
    }
    while (Thread* t = first_ready()) {
        if (!t->context) t->context = state.idle_count ? state.idle[--state.idle_count] : new_fibre(work);
        make_current(*t);
        switch_fibre(&state.scheduler, t->context);
    }
    if (state.live) report_deadlock();
}

// Launches

enum Order : uint32_t { forward, reverse, shuffled };

struct Launch {
    uint32_t grid[3], block[3], shared_bytes, order;
    uint64_t seed;
    char* arena;
};

static uint64_t random(uint64_t& seed) {        // splitmix64
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

template <class Index> void arrange(Index* indices, size_t n, uint32_t order, uint64_t& seed) {
    for (size_t i = 0; i < n; ++i) indices[i] = Index(order == reverse ? n - 1 - i : i);
    if (order == shuffled)
        for (size_t i = n; i > 1; --i) std::swap(indices[i - 1], indices[random(seed) % i]);
}

static void run_grid(const Launch& launch, const std::vector<uint32_t>& blocks, uint64_t seed) {
    for (int i = 0; i < state.count; ++i) state.threads[i].index = unravel(i, state.block);
    for (uint32_t number : blocks) {
        arrange(state.thread_at, state.count, launch.order, seed);
        for (int i = 0; i < state.count; ++i) state.position_of[state.thread_at[i]] = i;
        state.block_number = number;
        state.block_index = unravel(number, state.grid);
        run_block(launch.shared_bytes);
    }
}

static Failure launch(const Launch& launch) {
    state.block = {launch.block[0], launch.block[1], launch.block[2]};
    state.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
    state.count = int(state.block.x * state.block.y * state.block.z);
    state.arena = launch.arena;
    state.idle_count = state.stack_count = 0;
    memset(state.ready, 0, sizeof state.ready);
    // Right up to the unreadable guard, but for the alignment.
    state.dynamic_shared = state.arena + arena_bytes - guard_bytes - (launch.shared_bytes + 15) / 16 * 16;
    uint64_t seed = launch.seed;
    std::vector<uint32_t> blocks(size_t(state.grid.x) * state.grid.y * state.grid.z);
    arrange(blocks.data(), blocks.size(), launch.order, seed);
#ifdef EMU_RACES
    emu_races_begin();
#endif
    state.interrupted = 0;
    state.launcher = pthread_self();
    Handlers handlers;
    auto failure = Failure(sigsetjmp(state.escape, 1));
    if (failure == Failure::none) run_grid(launch, blocks, seed);
    state.current = nullptr;
    state.code = nullptr;
    fflush(stdout);
    return failure;
}

}  // namespace emu

// What Python calls

// One arena serves all modules: a process may have only so many mappings.
EMU_EXPORT char* emu_make_arena() { return emu::make_arena(); }

EMU_EXPORT int emu_launch(const emu::Entry* kernel, const emu::Launch* launch, void** arguments) {
    emu::kernel = kernel;
    emu::arguments = arguments;
    return int(emu::launch(*launch));
}

EMU_EXPORT const char* emu_message() { return emu::state.message; }
