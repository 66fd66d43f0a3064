// Deinterlaces one plane (SPEC.md, step 0) into other memory.

#pragma once

#include "args.h"
#include "arithmetic.h"
#include "block.h"

// Four bytes of a row, from byte `first` on; zeros after its end.
inline u32 row_word(const DeinterlaceArgs& args, u32 row, u32 first) {
  const u64 address = args.source + row * args.source_stride + first;
  const u32 count = args.row_bytes - first;
  if (args.aligned && count >= 4) return load_word(at<u8>(address));
  u32 word = 0;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    if (i < count) word |= static_cast<u32>(load(at<u8>(address + i))) << (8 * i);
  }
  return word;
}

inline u32 mean_of_samples(const DeinterlaceArgs& args, u32 a, u32 b) {
  const u32 most = (1u << args.depth_bits) - 1;
  return ((min_u32(a >> args.word_shift, most) + min_u32(b >> args.word_shift, most) + 1) >> 1) << args.word_shift;
}

// The means of four samples of 8 bits, or of two of more bits.
inline u32 mean_of_words(const DeinterlaceArgs& args, u32 a, u32 b) {
  if (args.depth_bits == 8) return (a | b) - (((a ^ b) >> 1) & 0x7F7F7F7Fu);
  return mean_of_samples(args, a & 0xFFFFu, b & 0xFFFFu) | mean_of_samples(args, a >> 16, b >> 16) << 16;
}

inline void deinterlace(Block& block, const DeinterlaceArgs& args) {
  block.sync_phase([&](u32 x, u32 y) {
    const u32 first = 4 * (block.x * TILE_WIDTH + x), row = block.y * TILE_HEIGHT + y;
    if (first >= args.row_bytes || row >= args.rows) return;
    u32 word;
    if ((row & 1u) == args.first_kept || args.rows < 2) {
      word = row_word(args, row, first);
    } else {
      const u32 above = row > 0 ? row - 1 : row + 1, below = row + 1 < args.rows ? row + 1 : row - 1;
      if (args.method == DEINTERLACE_LINEAR) {
        word = mean_of_words(args, row_word(args, above, first), row_word(args, below, first));
      } else {
        word = row_word(args, args.first_kept == 0 ? above : below, first);
      }
    }
    // Rows of the result are padded, so the last word is complete too.
    store(args.out + row * args.out_stride + first, word);
  });
}
