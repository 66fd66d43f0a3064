// In: the planes of a frame and the weights of its axes. Out: the 15-bit components of a tile (CONTRACT.md, steps 1 to 3).
// Never: holds more of a row than a chunk: horizontal sums go on from chunk to chunk, which changes no bit of them.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"

// A tile of the canvas, and the part of the window in it.
struct Tile {
  u32 x, y;                        // of its first pixel, on the canvas
  u32 first_column, column_count;  // window columns in it
  u32 first_row, row_count;
  u32 left, top;                   // of the first of these, in the tile
};

struct Components {
  i32 values[3];
};

// First and number of the pixels of a window of `length` pixels at `corner` that lie in `tile` pixels from `start` on.
inline void meet(u32 start, u32 tile, u32 corner, u32 length, u32* first, u32* count, u32* before) {
  const u32 from = most(start, corner), to = least(start + tile, corner + length);
  *count = from < to ? to - from : 0;
  *first = from < to ? from - corner : 0;
  *before = from < to ? from - start : 0;
}

inline Tile tile_of(const Block& block, const PixelArgs& args) {
  Tile tile;
  tile.x = block.x * TILE_WIDTH;
  tile.y = block.y * TILE_HEIGHT;
  meet(tile.x, TILE_WIDTH, args.corner[0], args.window[0], &tile.first_column, &tile.column_count, &tile.left);
  meet(tile.y, TILE_HEIGHT, args.corner[1], args.window[1], &tile.first_row, &tile.row_count, &tile.top);
  return tile;
}

// One sample, wherever it lies.
inline u32 sample_at(const PixelArgs& args, const Sheet& sheet, u32 row, u32 sample) {
  const u64 line = sheet.address + row * sheet.stride_bytes;
  if (args.depth_bits == 8) return load(at<u8>(line + sample));
  const u64 address = line + 2ull * sample;
  const u32 word = load(at<u8>(address)) | static_cast<u32>(load(at<u8>(address + 1))) << 8;
  return least(word >> args.word_shift, (1u << args.depth_bits) - 1);
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

// The same four bytes of four rows, of which `rows` are wanted; the others are the first again, and their weights are zero. Nothing
// branches here, so that all four are on their way at once.
template <bool WHOLE>
inline Words4 four_rows(u64 address, u64 stride, u32 left, u32 rows) {
  Words4 result;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) result.words[i] = four_bytes<WHOLE>(address + (i < rows ? i * stride : 0), left);
  return result;
}

// Vertical sums of four neighbouring samples of 8 bits.
template <bool WHOLE>
inline void blend_bytes(u64 address, u64 stride, u32 left, const u16* weights, u32 count, i16* to) {
  u32 a = 64, b = 64, c = 64, d = 64;
#pragma unroll 1
  for (u32 k = 0; k < count; k += 4) {
    const Words2 pairs = load_words(weights + k);
    const Words4 rows = four_rows<WHOLE>(address, stride, left, count - k);
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const u32 first = bytes_of(rows.words[2 * i], rows.words[2 * i + 1], 0x5140);
      const u32 second = bytes_of(rows.words[2 * i], rows.words[2 * i + 1], 0x7362);
      a = dot_low(pairs.words[i], first, a);
      b = dot_high(pairs.words[i], first, b);
      c = dot_low(pairs.words[i], second, c);
      d = dot_high(pairs.words[i], second, d);
    }
    address += 4 * stride;
  }
  // 255 in all rows makes 32640: nothing to clamp.
  keep_words(to, a >> 7 | b >> 7 << 16, c >> 7 | d >> 7 << 16);
}

// Vertical sums of two neighbouring samples of 9 to 16 bits.
template <bool WHOLE>
inline void blend_words(const PixelArgs& args, u64 address, u64 stride, u32 left, const u16* weights, u32 count, i16* to) {
  const u32 white = (1u << args.depth_bits) - 1;
  const u32 half = 1u << (args.depth_bits - 2);
  u32 a = half, b = half;
#pragma unroll 1
  for (u32 k = 0; k < count; k += 4) {
    const Words2 pairs = load_words(weights + k);
    const Words4 rows = four_rows<WHOLE>(address, stride, left, count - k);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 weight = i % 2 == 0 ? pairs.words[i / 2] & 0xFFFFu : pairs.words[i / 2] >> 16;
      a += weight * least((rows.words[i] & 0xFFFFu) >> args.word_shift, white);
      b += weight * least((rows.words[i] >> 16) >> args.word_shift, white);
    }
    address += 4 * stride;
  }
  a = least(a >> (args.depth_bits - 1), 32767);
  b = least(b >> (args.depth_bits - 1), 32767);
  keep_word(to, a | b << 16);
}

// Step 2 for samples `from` (a multiple of 4) to `end` of one row of a tile, by the threads x of its warp.
inline void blend_row(const PixelArgs& args, const Sheet& sheet, u32 row, u32 from, u32 end, u32 x, i16* line) {
  const Axis& rows = args.rows[sheet.grid];
  const Span span = load(at<Span>(rows.spans) + row);
  const u16* weights = at<u16>(rows.weights) + static_cast<u64>(row) * rows.taps;
  const u64 top = sheet.address + span.start * sheet.stride_bytes;
  if (args.depth_bits == 8) {
    for (u32 sample = from + 4 * x; sample < end; sample += 4 * TILE_WIDTH) {
      const u32 left = sheet.row_samples - sample;
      i16* to = line + (sample - from);
      if (sheet.aligned && left >= 4) {
        blend_bytes<true>(top + sample, sheet.stride_bytes, left, weights, span.count, to);
      } else {
        blend_bytes<false>(top + sample, sheet.stride_bytes, left, weights, span.count, to);
      }
    }
  } else {
    for (u32 sample = from + 2 * x; sample < end; sample += 2 * TILE_WIDTH) {
      const u32 left = sheet.row_samples - sample;
      i16* to = line + (sample - from);
      const u64 address = top + 2ull * sample;
      if (sheet.aligned && left >= 2) {
        blend_words<true>(args, address, sheet.stride_bytes, 2 * left, weights, span.count, to);
      } else {
        blend_words<false>(args, address, sheet.stride_bytes, 2 * left, weights, span.count, to);
      }
    }
  }
}

// Weighted sums of COUNT neighbouring samples of the columns `begin` to `end`, which lie in `line` step by step.
template <u32 COUNT>
inline void add_columns(const u16* weights, u32 positions, u32 begin, u32 end, const i16* line, const Sheet& sheet, i32* sums) {
  const i16* values[COUNT];
#pragma unroll
  for (u32 n = 0; n < COUNT; ++n) values[n] = line + sheet.offsets[n];
  const u32 step = sheet.step;
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

// Step 3 for one pixel, as far as columns `first` to `end` go, which lie in `line` from sample `from` on.
inline void convolve(const Axis& columns, const Sheet& sheet, u32 position, u32 first, u32 end, u32 from, const i16* line,
                     Components& sums) {
  const Span span = load(at<Span>(columns.spans) + position);
  const u32 begin = most(span.start, first), stop = least(span.start + span.count, end);
  const u16* weights = at<u16>(columns.weights) + position + static_cast<u64>(begin - span.start) * columns.positions;
  line += static_cast<i32>(begin * sheet.step - from);
  i32 more[3] = {0, 0, 0};
  if (sheet.components == 1) {
    add_columns<1>(weights, columns.positions, begin, stop, line, sheet, more);
#pragma unroll
    for (u32 c = 0; c < 3; ++c) sums.values[c] += sheet.first == c ? more[0] : 0;
  } else if (sheet.components == 2) {
    add_columns<2>(weights, columns.positions, begin, stop, line, sheet, more);
    sums.values[1] += more[0];
    sums.values[2] += more[1];
  } else {
    add_columns<3>(weights, columns.positions, begin, stop, line, sheet, more);
#pragma unroll
    for (u32 c = 0; c < 3; ++c) sums.values[c] += more[c];
  }
}

// Steps 1 to 3 for each thread's pixel, if that lies in the window: its components but for the last shift.
inline void resample(Block& block, const PixelArgs& args, const Tile& tile, Own<Components>& own) {
  i16* held = reinterpret_cast<i16*>(block.shared);
  if (tile.column_count == 0 || tile.row_count == 0) return;
  for (u32 s = 0; s < args.sheet_count; ++s) {
    const Sheet& sheet = args.sheets[s];
    const Axis& columns = args.columns[sheet.grid];
    const Span* spans = at<Span>(columns.spans);
    const Span last = load(spans + tile.first_column + tile.column_count - 1);
    const u32 begin = load(spans + tile.first_column).start, stop = last.start + last.count;
    for (u32 first = begin; first < stop; first += sheet.chunk) {
      const u32 end = least(first + sheet.chunk, stop);
      const u32 from = first * sheet.step & ~3u;
      block.phase([&](u32 x, u32 y) {
        if (y < tile.row_count) {
          blend_row(args, sheet, tile.first_row + y, from, end * sheet.step, x, held + y * sheet.pitch);
        }
      });
      block.phase([&](u32 x, u32 y) {
        const u32 column = x - tile.left, row = y - tile.top;
        if (column < tile.column_count && row < tile.row_count) {
          convolve(columns, sheet, tile.first_column + column, first, end, from, held + row * sheet.pitch, own.of(x, y));
        }
      });
    }
  }
}

// Steps 1 to 3 where no position has more than one tap: the samples themselves.
inline Components only_taps(const PixelArgs& args, u32 column, u32 row) {
  Components result{{0, 0, 0}};
  for (u32 s = 0; s < args.sheet_count; ++s) {
    const Sheet& sheet = args.sheets[s];
    const u32 sample = load(at<Span>(args.columns[sheet.grid].spans) + column).start * sheet.step;
    const u32 line = load(at<Span>(args.rows[sheet.grid].spans) + row).start;
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
      if (c - sheet.first < sheet.components) {
        const u32 value = sample_at(args, sheet, line, sample + sheet.offsets[c - sheet.first]);
        const u32 sum = (value << 14) + (1u << (args.depth_bits - 2));
        result.values[c] = static_cast<i32>(least(sum >> (args.depth_bits - 1), 32767)) << 14;
      }
    }
  }
  return result;
}

// The components of each thread's pixel, times 2^14 and with half of that added; anything for pixels outside the window.
inline void components_of(Block& block, const PixelArgs& args, const Tile& tile, Own<Components>& own) {
  if (!args.single) return resample(block, args, tile, own);
  block.phase([&](u32 x, u32 y) {
    const u32 column = x - tile.left, row = y - tile.top;
    if (column < tile.column_count && row < tile.row_count) {
      own.of(x, y) = only_taps(args, tile.first_column + column, tile.first_row + row);
    }
  });
}
