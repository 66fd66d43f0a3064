// Resamples the planes of a frame with the weights of its axes to the 15-bit components of a tile (SPEC.md, steps 1 to 3).
// At most a chunk of a row is in shared memory: horizontal sums continue from chunk to chunk, which does not change their bits.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"

// A tile of the canvas, and its intersection with the window.
struct Tile {
  u32 x, y;                        // of its first pixel, on the canvas
  u32 first_column, column_count;  // window columns in it
  u32 first_row, row_count;
  u32 left, top;                   // of the first of these, in the tile
};

struct Components {
  i32 values[3];
};

// First index and number of the pixels of a window of `length` pixels at `corner` that are in the `tile` pixels from `start`.
inline void intersect(u32 start, u32 tile, u32 corner, u32 length, u32* first, u32* count, u32* before) {
  const u32 from = max_u32(start, corner), to = min_u32(start + tile, corner + length);
  *count = from < to ? to - from : 0;
  *first = from < to ? from - corner : 0;
  *before = from < to ? from - start : 0;
}

inline Tile tile_of(const Block& block, const PixelArgs& args) {
  Tile tile;
  tile.x = block.x * TILE_WIDTH;
  tile.y = block.y * TILE_HEIGHT;
  intersect(tile.x, TILE_WIDTH, args.corner[0], args.window[0], &tile.first_column, &tile.column_count, &tile.left);
  intersect(tile.y, TILE_HEIGHT, args.corner[1], args.window[1], &tile.first_row, &tile.row_count, &tile.top);
  return tile;
}

// One sample at any address.
inline u32 sample_at(const PixelArgs& args, const PlaneArgs& plane, u32 row, u32 sample) {
  const u64 line = plane.address + row * plane.stride_bytes;
  if (args.depth_bits == 8) return load(at<u8>(line + sample));
  const u64 address = line + 2ull * sample;
  const u32 word = load(at<u8>(address)) | static_cast<u32>(load(at<u8>(address + 1))) << 8;
  return min_u32(word >> args.word_shift, (1u << args.depth_bits) - 1);
}

// Four bytes of a row, of which `left` exist.
template <bool WHOLE>
inline u32 four_bytes(u64 address, u32 left) {
  if (WHOLE) return load_word(at<u8>(address));
  u32 word = 0;
  for (u32 i = 0; i < 4; ++i) {
    if (i < left) word |= static_cast<u32>(load(at<u8>(address + i))) << (8 * i);
  }
  return word;
}

// The same four bytes of four rows, of which `rows` are needed; the others repeat the first row, and their weights are zero.
// There are no branches, so that all four loads are in flight together.
template <bool WHOLE>
inline Words4 four_rows(u64 address, u64 stride, u32 left, u32 rows) {
  Words4 result;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) result.words[i] = four_bytes<WHOLE>(address + (i < rows ? i * stride : 0), left);
  return result;
}

// Vertical sums of four neighboring 8-bit samples.
template <bool WHOLE>
inline void filter_vertical_u8(const PlaneArgs& plane, u64 address, u32 left, const i16* weights, u32 count, i16* to) {
  const u64 stride = plane.stride_bytes;
  i32 a = 64, b = 64, c = 64, d = 64;
#pragma unroll 1
  for (u32 k = 0; k < count; k += 4) {
    const Words2 pairs = load_words(weights + k);
    const Words4 rows = four_rows<WHOLE>(address, stride, left, count - k);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 first = permute_bytes(rows.words[2 * i], rows.words[2 * i + 1], 0x5140);
      const u32 second = permute_bytes(rows.words[2 * i], rows.words[2 * i + 1], 0x7362);
      a = dot_low(pairs.words[i], first, a);
      b = dot_high(pairs.words[i], first, b);
      c = dot_low(pairs.words[i], second, c);
      d = dot_high(pairs.words[i], second, d);
    }
    address += 4 * stride;
  }
  a >>= 7, b >>= 7, c >>= 7, d >>= 7;
  // Else 255 in all rows gives 32640.
  if (plane.overshoots) {
    a = clamp_component(a), b = clamp_component(b), c = clamp_component(c), d = clamp_component(d);
  }
  store_shared_words(to, component_pair(a, b), component_pair(c, d));
}

// Vertical sums of two neighboring samples of 9 to 16 bits.
template <bool WHOLE>
inline void filter_vertical_u16(const PixelArgs& args, u64 address, u64 stride, u32 left, const i16* weights, u32 count, i16* to) {
  const u32 white = (1u << args.depth_bits) - 1;
  const i32 half = 1 << (args.depth_bits - 2);
  i32 a = half, b = half;
#pragma unroll 1
  for (u32 k = 0; k < count; k += 4) {
    const Words2 pairs = load_words(weights + k);
    const Words4 rows = four_rows<WHOLE>(address, stride, left, count - k);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const i32 weight = static_cast<i16>(i % 2 == 0 ? pairs.words[i / 2] & 0xFFFFu : pairs.words[i / 2] >> 16);
      a += weight * static_cast<i32>(min_u32((rows.words[i] & 0xFFFFu) >> args.word_shift, white));
      b += weight * static_cast<i32>(min_u32((rows.words[i] >> 16) >> args.word_shift, white));
    }
    address += 4 * stride;
  }
  a = clamp_component(a >> (args.depth_bits - 1));
  b = clamp_component(b >> (args.depth_bits - 1));
  store_shared_word(to, component_pair(a, b));
}

// Step 2 for samples `from` (a multiple of 4) to `end` of one row of a tile, by the threads of one warp.
inline void filter_vertical_row(const PixelArgs& args, const PlaneArgs& plane, u32 row, u32 from, u32 end, u32 x, i16* line) {
  const AxisArgs& rows = args.rows[plane.is_chroma];
  const TapRange range = load(at<TapRange>(rows.tap_ranges) + row);
  const i16* weights = at<i16>(rows.weights) + static_cast<u64>(row) * rows.taps;
  const u64 top = plane.address + range.start * plane.stride_bytes;
  if (args.depth_bits == 8) {
    for (u32 sample = from + 4 * x; sample < end; sample += 4 * TILE_WIDTH) {
      const u32 left = plane.row_samples - sample;
      i16* to = line + (sample - from);
      if (plane.aligned && left >= 4) {
        filter_vertical_u8<true>(plane, top + sample, left, weights, range.count, to);
      } else {
        filter_vertical_u8<false>(plane, top + sample, left, weights, range.count, to);
      }
    }
  } else {
    for (u32 sample = from + 2 * x; sample < end; sample += 2 * TILE_WIDTH) {
      const u32 left = plane.row_samples - sample;
      i16* to = line + (sample - from);
      const u64 address = top + 2ull * sample;
      if (plane.aligned && left >= 2) {
        filter_vertical_u16<true>(args, address, plane.stride_bytes, 2 * left, weights, range.count, to);
      } else {
        filter_vertical_u16<false>(args, address, plane.stride_bytes, 2 * left, weights, range.count, to);
      }
    }
  }
}

// Weighted sums of COUNT neighboring samples of the columns `begin` to `end`, which are in `line`, `step` apart.
template <u32 COUNT>
inline void add_columns(const i16* weights, u32 positions, u32 begin, u32 end, const i16* line, const PlaneArgs& plane, i32* sums) {
  const i16* values[COUNT];
#pragma unroll
  for (u32 n = 0; n < COUNT; ++n) values[n] = line + plane.offsets[n];
  const u32 step = plane.step;
#pragma unroll 4
  for (u32 column = begin; column < end; ++column) {
    const i32 weight = load(weights);
    weights += positions;
#pragma unroll
    for (u32 n = 0; n < COUNT; ++n) {
      sums[n] += weight * *values[n];
      values[n] += step;
    }
  }
}

// Step 3 for one pixel, restricted to columns `first` to `end`, which are in `line` from sample `from`.
inline void filter_horizontal(const AxisArgs& columns, const PlaneArgs& plane, u32 position, u32 first, u32 end, u32 from, const i16* line,
                     Components& sums) {
  const TapRange range = load(at<TapRange>(columns.tap_ranges) + position);
  const u32 begin = max_u32(range.start, first), stop = min_u32(range.start + range.count, end);
  const i16* weights = at<i16>(columns.weights) + position + static_cast<u64>(begin - range.start) * columns.positions;
  line += static_cast<i32>(begin * plane.step - from);
  i32 more[3] = {0, 0, 0};
  if (plane.components == 1) {
    add_columns<1>(weights, columns.positions, begin, stop, line, plane, more);
#pragma unroll
    for (u32 c = 0; c < 3; ++c) sums.values[c] += plane.first == c ? more[0] : 0;
  } else if (plane.components == 2) {
    add_columns<2>(weights, columns.positions, begin, stop, line, plane, more);
    sums.values[1] += more[0];
    sums.values[2] += more[1];
  } else {
    add_columns<3>(weights, columns.positions, begin, stop, line, plane, more);
#pragma unroll
    for (u32 c = 0; c < 3; ++c) sums.values[c] += more[c];
  }
}

// Steps 1 to 3 for each thread's pixel, if it is in the window: its components without the last shift.
inline void resample(Block& block, const PixelArgs& args, const Tile& tile, PerThread<Components>& per_thread) {
  i16* row_buffer = reinterpret_cast<i16*>(block.shared);
  if (tile.column_count == 0 || tile.row_count == 0) return;
  for (u32 s = 0; s < args.plane_count; ++s) {
    const PlaneArgs& plane = args.planes[s];
    const AxisArgs& columns = args.columns[plane.is_chroma];
    const TapRange* tap_ranges = at<TapRange>(columns.tap_ranges);
    const TapRange last = load(tap_ranges + tile.first_column + tile.column_count - 1);
    const u32 begin = load(tap_ranges + tile.first_column).start, stop = last.start + last.count;
    for (u32 first = begin; first < stop; first += plane.chunk) {
      const u32 end = min_u32(first + plane.chunk, stop);
      const u32 from = first * plane.step & ~3u;
      block.sync_phase([&](u32 x, u32 y) {
        if (y < tile.row_count) {
          filter_vertical_row(args, plane, tile.first_row + y, from, end * plane.step, x, row_buffer + y * plane.pitch);
        }
      });
      block.sync_phase([&](u32 x, u32 y) {
        const u32 column = x - tile.left, row = y - tile.top;
        if (column < tile.column_count && row < tile.row_count) {
          filter_horizontal(columns, plane, tile.first_column + column, first, end, from, row_buffer + row * plane.pitch, per_thread.at(x, y));
        }
      });
    }
  }
}

// Steps 1 to 3 if no position has more than one tap: the samples themselves.
inline Components single_tap_components(const PixelArgs& args, u32 column, u32 row) {
  Components result{{0, 0, 0}};
  for (u32 s = 0; s < args.plane_count; ++s) {
    const PlaneArgs& plane = args.planes[s];
    const u32 sample = load(at<TapRange>(args.columns[plane.is_chroma].tap_ranges) + column).start * plane.step;
    const u32 line = load(at<TapRange>(args.rows[plane.is_chroma].tap_ranges) + row).start;
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
      if (c - plane.first < plane.components) {
        const u32 value = sample_at(args, plane, line, sample + plane.offsets[c - plane.first]);
        const u32 sum = (value << 14) + (1u << (args.depth_bits - 2));
        result.values[c] = static_cast<i32>(min_u32(sum >> (args.depth_bits - 1), 32767)) << 14;
      }
    }
  }
  return result;
}

// The components of each thread's pixel, times 2^14 plus half of that; undefined for pixels outside the window.
inline void tile_components(Block& block, const PixelArgs& args, const Tile& tile, PerThread<Components>& per_thread) {
  if (!args.single_tap) return resample(block, args, tile, per_thread);
  block.sync_phase([&](u32 x, u32 y) {
    const u32 column = x - tile.left, row = y - tile.top;
    if (column < tile.column_count && row < tile.row_count) {
      per_thread.at(x, y) = single_tap_components(args, tile.first_column + column, tile.first_row + row);
    }
  });
}
