// A thread block as a sequence of phases, separated by barriers, with per-thread state that lasts from phase to phase.
// On a CPU `shim/block.h` replaces this file and runs each phase for one thread after the other.

#pragma once

#ifndef __CUDACC_RTC__
#include "shim/block.h"
#else

#include "args.h"

// The running block, as kernels see it.
struct Block {
  u32 x, y;
  unsigned char* shared;

  template <class Body>
  void sync_phase(Body body) {
    body(threadIdx.x, threadIdx.y);
    __syncthreads();
  }
};

// Per-thread state.
template <class T>
struct PerThread {
  T value;
  explicit PerThread(T first) : value(first) {}
  T& at(u32, u32) { return value; }
};

template <class T>
inline const T* at(u64 address) {
  return reinterpret_cast<const T*>(address);
}

template <class T>
inline T load(const T* from) {
  return __ldg(from);
}
inline TapRange load(const TapRange* from) {
  const uint2 range = __ldg(reinterpret_cast<const uint2*>(from));
  return TapRange{range.x, range.y};
}
inline u32 load_word(const void* from) { return __ldg(static_cast<const u32*>(from)); }
inline Words2 load_words(const void* from) {
  const uint2 words = __ldg(static_cast<const uint2*>(from));
  return Words2{{words.x, words.y}};
}

template <class T>
inline void store(u64 address, T value) {
  *reinterpret_cast<T*>(address) = value;
}
inline void store_words(u64 address, u32 a, u32 b) { *reinterpret_cast<uint2*>(address) = make_uint2(a, b); }
inline void store_words(u64 address, u32 a, u32 b, u32 c, u32 d) {
  *reinterpret_cast<uint4*>(address) = make_uint4(a, b, c, d);
}
inline void store_shared_words(i16* to, u32 a, u32 b) { *reinterpret_cast<uint2*>(to) = make_uint2(a, b); }
inline void store_shared_word(i16* to, u32 a) { *reinterpret_cast<u32*>(to) = a; }

inline void add_to(u64 address, u64 value) { atomicAdd(reinterpret_cast<u64*>(address), value); }

// Number of leading zeros; 32 for 0.
inline u32 leading_zeros(u32 value) { return static_cast<u32>(__clz(static_cast<int>(value))); }

inline u32 float_to_bits(float value) { return __float_as_uint(value); }
inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// The bytes of `a` (numbers 0 to 3) and `b` (4 to 7) selected by the four lowest digits of `which`, lowest first.
inline u32 permute_bytes(u32 a, u32 b, u32 which) { return __byte_perm(a, b, which); }

// sum + the dot product of two signed 16-bit numbers with the two lower, or the two upper, unsigned bytes.
inline i32 dot_low(u32 pair, u32 bytes, i32 sum) {
  i32 result;
  asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(bytes), "r"(sum));
  return result;
}
inline i32 dot_high(u32 pair, u32 bytes, i32 sum) {
  i32 result;
  asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(bytes), "r"(sum));
  return result;
}

// At least four blocks fit on a multiprocessor: 64 registers per thread.
#define KERNEL(name, Args, body)                                                               \
  extern "C" __global__ void __launch_bounds__(TILE, 4) name(const __grid_constant__ Args args) { \
    extern __shared__ __align__(16) unsigned char shared[];                                    \
    Block block{blockIdx.x, blockIdx.y, shared};                                               \
    body(block, args);                                                                         \
  }

#endif
