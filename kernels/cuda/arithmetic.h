// Integer arithmetic with the same bits on every machine: elements of noise, and the sums of the vertical pass.
// Floating point is used only for products that are rounded once.

#pragma once

#include "args.h"
#include "block.h"

inline u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }
inline u32 max_u32(u32 a, u32 b) { return a > b ? a : b; }

// A sum of step 2 or 3 as a component of 15 bits.
inline i32 clamp_component(i32 sum) { return sum < 0 ? 0 : sum > 32767 ? 32767 : sum; }

// Two components as words of 16 bits.
inline u32 component_pair(i32 first, i32 second) { return static_cast<u32>(first) | static_cast<u32>(second) << 16; }

// The bits of a number that is not NaN in half precision, rounded to nearest even.
inline u32 float_to_half_bits(float value) {
  const u32 bits = float_to_bits(value);
  const u32 sign = bits >> 16 & 0x8000u;
  const u32 exponent = bits >> 23 & 255u;
  u32 kept, cut;
  if (exponent >= 143) return sign | 0x7C00u;  // beyond the largest power of two: infinity
  if (exponent >= 113) {
    kept = ((exponent - 112) << 23) | (bits & 0x7FFFFFu);
    cut = 13;
  } else if (exponent >= 102) {
    // Below the smallest normal number the leading bit is explicit.
    kept = (bits & 0x7FFFFFu) | 0x800000u;
    cut = 126 - exponent;
  } else {
    return sign;
  }
  const u32 half = 1u << (cut - 1);
  const u32 odd = kept >> cut & 1u;
  return sign | ((kept + half - 1 + odd) >> cut);
}

// The same for bfloat16, whose exponent range is that of single precision.
inline u32 float_to_bfloat16_bits(float value) {
  const u32 bits = float_to_bits(value);
  return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}

// The n-th output of SplitMix64.
inline u64 splitmix64(u64 key, u64 n) {
  u64 h = key + (n + 1) * 0x9E3779B97F4A7C15ull;
  h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9ull;
  h = (h ^ h >> 27) * 0x94D049BB133111EBull;
  return h ^ h >> 31;
}

// The element for 64 random bits (SPEC.md, step 6).
inline u32 noise_element(u32 dtype, u64 random) {
  if (dtype == DTYPE_U8) return static_cast<u32>(random) & 255u;
  if (dtype == DTYPE_U16) return static_cast<u32>(random) & 65535u;
  const u32 low = static_cast<u32>(random), high = static_cast<u32>(random >> 32);
  const u32 sum = (low & 0xFFFFu) + (low >> 16) + (high & 0xFFFFu) + (high >> 16);
  const float value = static_cast<float>(static_cast<i32>(sum) - 131070) * (1.0f / 37837.2f);
  if (dtype == DTYPE_F16) return float_to_half_bits(value);
  if (dtype == DTYPE_BF16) return float_to_bfloat16_bits(value);
  return float_to_bits(value);
}
