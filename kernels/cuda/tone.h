// Maps 15-bit components of high dynamic range video to 15-bit R, G, B of standard dynamic range (SPEC.md, "Tone").
// No floating point is used: the curves are tables from the host.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"
#include "resample.h"

// The table's value at `value`, interpolated between two entries if needed.
inline u32 interpolate_table(u64 table, u32 value) {
  const u32 length = 32 - leading_zeros(value);
  const u32 shift = length > 8 ? length - 8 : 0;
  const u32* entry = at<u32>(table) + 128 * shift + (value >> shift);
  const i64 a = load(entry), b = load(entry + 1);
  const i64 part = value & ((1u << shift) - 1);
  return static_cast<u32>(a + (((b - a) * part) >> shift));
}

// For a frame with one component, the others have no effect: their factors are zero.
inline void map_tone(const ToneArgs& tone, Components& pixel) {
  u64 light[3];
#pragma unroll
  for (u32 r = 0; r < 3; ++r) {
    i32 sum = 0;
#pragma unroll
    for (u32 k = 0; k < 3; ++k) sum += tone.factors[3 * r + k] * (pixel.values[k] - tone.zero[k]);
    const i64 wide = (257 * static_cast<i64>(sum) + (1 << (tone.shift - 1))) >> tone.shift;
    const u32 code = static_cast<u32>(wide < 0 ? 0 : wide > 65535 ? 65535 : wide);
    const u32* entry = at<u32>(tone.light) + (code >> 4);
    const u64 a = load(entry), b = load(entry + 1);
    light[r] = (a * (16 - (code & 15)) + b * (code & 15) + 8) >> 4;
  }
  const u64 luminance = (tone.weights[0] * light[0] + tone.weights[1] * light[1] + tone.weights[2] * light[2]) >> 14;
  const u64 gain = interpolate_table(tone.gain, static_cast<u32>(luminance));
  const u64 brightest = 1ull << 30;
#pragma unroll
  for (u32 k = 0; k < 3; ++k) {
    light[k] = light[k] * gain >> 24;
    if (light[k] > brightest) light[k] = brightest;
  }
#pragma unroll
  for (u32 r = 0; r < 3; ++r) {
    i64 sum = 1 << 23;
#pragma unroll
    for (u32 k = 0; k < 3; ++k) sum += tone.gamut[3 * r + k] * static_cast<i64>(light[k]);
    sum >>= 24;
    const i64 white = 1 << 24;
    pixel.values[r] = static_cast<i32>(interpolate_table(tone.code, static_cast<u32>(sum < 0 ? 0 : sum > white ? white : sum)));
  }
}
