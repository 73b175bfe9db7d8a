// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four random words per 128-bit counter, without state.
//
// Each call uses its own range of counters from `start` on under its seed. If a number needs one word, number i uses
// word i % 4 of counter start + i / 4, whatever the dtype and the grid: so a second launch, or another kernel,
// reproduces the same words. `turn` is the upper half of the counter, for numbers that need several.
//
// In a CUDA graph `live` holds the seed, and what is added to `start`, since arguments are the same at every replay;
// else it is null.
#pragma once

__device__ inline void refresh(const unsigned long long* live, unsigned long long& seed, unsigned long long& start) {
    if (!live) return;
    seed = live[0];
    start += live[1];
}

struct Words {
    unsigned at[4];

    __device__ unsigned long long pair(int i) const {
        return static_cast<unsigned long long>(at[2 * i + 1]) << 32 | at[2 * i];
    }
};

__device__ inline Words philox(unsigned long long seed, unsigned long long counter, unsigned long long turn = 0) {
    Words c{{static_cast<unsigned>(counter), static_cast<unsigned>(counter >> 32), static_cast<unsigned>(turn),
             static_cast<unsigned>(turn >> 32)}};
    unsigned low = static_cast<unsigned>(seed), high = static_cast<unsigned>(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned first = 0xD2511F53u, second = 0xCD9E8D57u;  // as a 64-bit product it would have an addition more
        c = {{__umulhi(second, c.at[2]) ^ c.at[1] ^ low, second * c.at[2],
              __umulhi(first, c.at[0]) ^ c.at[3] ^ high, first * c.at[0]}};
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return c;
}
