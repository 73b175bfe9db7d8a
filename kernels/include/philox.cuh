// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four random words for each 128-bit counter, without any state.
//
// A call of the product owns the counters from `start` on that nobody else has under its seed. Where a number needs one
// word, number i takes word i % 4 of the counter start + i / 4, whatever the dtype and the grid: so a second launch, or
// one of another kernel, meets the same words. `turn` is the counter's upper half, for numbers that take several.
#pragma once

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
        const unsigned long long first = 0xD2511F53ull * c.at[0], second = 0xCD9E8D57ull * c.at[2];
        c = {{static_cast<unsigned>(second >> 32) ^ c.at[1] ^ low, static_cast<unsigned>(second),
              static_cast<unsigned>(first >> 32) ^ c.at[3] ^ high, static_cast<unsigned>(first)}};
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return c;
}
