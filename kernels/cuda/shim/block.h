// Runs the phases of one block of a launch on a CPU, thread after thread. Per-thread state is kept for each thread.
// NVRTC never sees this file. It is not optimized.

#pragma once

#include <cstring>

#include "args.h"

// In every other block the threads run in reverse order, so that a missing barrier gives wrong results.
struct Block {
  u32 x, y;
  unsigned char* shared;

  template <class Body>
  void sync_phase(Body body) {
    for (u32 i = 0; i < TILE; ++i) {
      const u32 thread = (x + y) % 2 == 0 ? i : TILE - 1 - i;
      body(thread % TILE_WIDTH, thread / TILE_WIDTH);
    }
  }
};

template <class T>
struct PerThread {
  T each[TILE_HEIGHT][TILE_WIDTH];
  explicit PerThread(T first) {
    for (auto& row : each) {
      for (T& value : row) value = first;
    }
  }
  T& at(u32 x, u32 y) { return each[y][x]; }
};

template <class T>
inline const T* at(u64 address) {
  return reinterpret_cast<const T*>(address);
}

template <class T>
inline T load(const T* from) {
  return *from;
}
inline u32 load_word(const void* from) { return *static_cast<const u32*>(from); }
inline Words2 load_words(const void* from) { return *static_cast<const Words2*>(from); }

template <class T>
inline void store(u64 address, T value) {
  *reinterpret_cast<T*>(address) = value;
}
inline void store_words(u64 address, u32 a, u32 b) { *reinterpret_cast<Words2*>(address) = Words2{{a, b}}; }
inline void store_words(u64 address, u32 a, u32 b, u32 c, u32 d) {
  *reinterpret_cast<Words4*>(address) = Words4{{a, b, c, d}};
}
inline void store_shared_words(i16* to, u32 a, u32 b) { *reinterpret_cast<Words2*>(to) = Words2{{a, b}}; }
inline void store_shared_word(i16* to, u32 a) { *reinterpret_cast<u32*>(to) = a; }

inline void add_to(u64 address, u64 value) { *reinterpret_cast<u64*>(address) += value; }

inline u32 float_to_bits(float value) {
  u32 bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline u32 leading_zeros(u32 value) { return value == 0 ? 32 : static_cast<u32>(__builtin_clz(value)); }

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

inline u32 permute_bytes(u32 a, u32 b, u32 which) {
  const u64 all = static_cast<u64>(b) << 32 | a;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 number = which >> (4 * i) & 7u;
    result |= static_cast<u32>(all >> (8 * number) & 255u) << (8 * i);
  }
  return result;
}

inline i32 dot_low(u32 pair, u32 bytes, i32 sum) {
  const i32 first = static_cast<i16>(pair & 0xFFFFu), second = static_cast<i16>(pair >> 16);
  return sum + first * static_cast<i32>(bytes & 255u) + second * static_cast<i32>(bytes >> 8 & 255u);
}
inline i32 dot_high(u32 pair, u32 bytes, i32 sum) { return dot_low(pair, bytes >> 16, sum); }

#define KERNEL(name, Args, body)                                  \
  static void name(Block& block, const void* bytes) {             \
    Args args;                                                    \
    std::memcpy(&args, bytes, sizeof args);                       \
    body(block, args);                                            \
  }
