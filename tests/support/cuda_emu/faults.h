// Faults of a kernel, which would end the process, become failures of the launch; so does an interrupt of one that
// does not end.
#pragma once

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <ucontext.h>

#include "state.h"

namespace emu {

[[noreturn]] void fail(Failure failure, const char* format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(state.message, sizeof state.message, format, values);
    va_end(values);
    siglongjmp(state.escape, int(failure));
}

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGINT, SIGALRM}, signal_count = 7;
static struct sigaction actions_before[signal_count];
static char signal_stack[64 << 10];

inline const char* describe(int signal, const siginfo_t* info) {
    auto* address = static_cast<char*>(info->si_addr);
    char* arena_end = state.arena + arena_bytes;
    if (signal == SIGFPE) return "divides an integer by zero, or by -1 with a quotient too large";
    if (signal == SIGILL || signal == SIGTRAP)
        return "does what C++ leaves undefined: a misaligned access, an index outside an array, a shift too far, or an "
               "integer overflow";
    if (info->si_code == SI_KERNEL || uintptr_t(address) >= uintptr_t(-4096))
        return "uses a misaligned pointer, or one that was never set";
    if (address >= state.arena && address < state.arena + stacks_bytes) return "overflows its stack of 256 KiB";
    if (address >= arena_end - guard_bytes && address < arena_end) return "runs past the end of dynamic shared memory";
    if (address >= emu_shared_end && address < emu_shared_end + shared_room_bytes)
        return "runs past the end of static shared memory";
    return nullptr;
}

inline const void* code_of(void* context) {
    if (state.code) return state.code;
#if defined(__x86_64__)
    return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
    return nullptr;
#endif
}

static void on_signal(int signal, siginfo_t* info, void* context) {
    bool interrupt = signal == SIGINT || signal == SIGALRM, mine = pthread_equal(pthread_self(), state.launcher);
    if (interrupt && mine) state.interrupted = signal;
    if (!mine || !state.current) {
        // Not the kernel's doing. An interrupt of ours waits for the next thread; anything else goes to whoever was
        // there before: a fault happens again, and a signal is sent again.
        if (interrupt && mine) return;
        for (int i = 0; i < signal_count; ++i)
            if (signals[i] == signal) sigaction(signal, &actions_before[i], nullptr);
        if (interrupt) raise(signal);
        return;
    }
    state.current = nullptr;
    const char* what = interrupt ? "is interrupted" : describe(signal, info);
    char text[64];
    if (!what) snprintf(text, sizeof text, "accesses the illegal address %p", info->si_addr);
    auto failure = signal == SIGSEGV || signal == SIGBUS ? Failure::illegal_address : Failure::undefined;
    fail(interrupt ? Failure::other : failure, "block " EMU_INDEX " thread " EMU_INDEX " %s @%p",
         EMU_XYZ(state.block_index), EMU_XYZ(state.thread_index), what ? what : text, code_of(context));
}

// Handles these signals for the time of a launch, on a stack of its own. An interrupt is passed on at the end.
struct Handlers {
    stack_t stack_before;

    Handlers() {
        stack_t stack = {};
        stack.ss_sp = signal_stack, stack.ss_size = sizeof signal_stack;
        sigaltstack(&stack, &stack_before);
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int i = 0; i < signal_count; ++i) {
            sigaction(signals[i], &action, &actions_before[i]);
            if (actions_before[i].sa_handler == SIG_IGN) sigaction(signals[i], &actions_before[i], nullptr);
        }
    }
    ~Handlers() {
        for (int i = 0; i < signal_count; ++i) sigaction(signals[i], &actions_before[i], nullptr);
        sigaltstack(&stack_before, nullptr);
        if (state.interrupted) raise(state.interrupted);
    }
};

}  // namespace emu
