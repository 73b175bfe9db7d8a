// Fibres: stacks that one OS thread switches between.
#pragma once

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

#if !defined(__x86_64__) && !defined(EMU_UCONTEXT)
#define EMU_UCONTEXT        // the port to other CPUs: every switch is two system calls
#endif

#ifdef EMU_UCONTEXT
#include <ucontext.h>
#else
// Saves the running fibre in *from and goes on with the one that was saved as `to`.
extern "C" void emu_switch(void** from, void* to);
asm(R"(
.pushsection .text
.type emu_switch, @function
emu_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.popsection
)");
#endif

namespace emu {

inline void switch_fibre(void** from, void* to) {
#ifdef EMU_UCONTEXT
    ucontext_t here;
    *from = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
#else
    emu_switch(from, to);
#endif
}

inline void* new_fibre(void (*body)()) {
    int number = state.stack_count++;
    char* bottom = state.arena + number * (guard_bytes + stack_bytes) + guard_bytes;
    // Not all at one offset in their pages, or they would compete for a few lines of the cache.
    char* top = bottom + stack_bytes - number % 128 * 320;
#ifdef EMU_UCONTEXT
    auto* context = reinterpret_cast<ucontext_t*>(top - (sizeof(ucontext_t) + 63) / 64 * 64);
    getcontext(context);
    context->uc_stack.ss_sp = bottom;
    context->uc_stack.ss_size = reinterpret_cast<char*>(context) - bottom;
    makecontext(context, body, 0);
    return context;
#else
    // Six registers, then the address to return to; a function is entered with rsp % 16 == 8.
    auto* frame = reinterpret_cast<void**>(top) - 8;
    memset(frame, 0, 6 * sizeof *frame);
    frame[6] = reinterpret_cast<void*>(body);
    return frame;
#endif
}

inline char* make_arena() {
    void* memory = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* arena = static_cast<char*>(memory);
    for (int i = 0; i < max_threads; ++i)
        mprotect(arena + i * (guard_bytes + stack_bytes) + guard_bytes, stack_bytes, PROT_READ | PROT_WRITE);
    mprotect(arena + stacks_bytes + guard_bytes, max_dynamic_bytes, PROT_READ | PROT_WRITE);
    return arena;
}

// The whole pages of the room after static shared memory are made unreadable.
__attribute__((constructor)) static void guard_static_shared() {
    uintptr_t page = sysconf(_SC_PAGESIZE), end = reinterpret_cast<uintptr_t>(emu_shared_end);
    uintptr_t first = (end + page - 1) / page * page, last = (end + shared_room_bytes) / page * page;
    mprotect(reinterpret_cast<void*>(first), last - first, PROT_NONE);
}

}  // namespace emu
