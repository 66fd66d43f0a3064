// The kernel arguments: one struct, passed by value, and the records at its addresses.
// No padding, no pointers and no machine-dependent sizes: `src/cuda/kernel_args.rs` writes the same bytes, and a test there
// checks them against the FIELD_IS_AT lines of layout.h.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef short i16;
typedef int i32;
typedef long long i64;

// A block computes a tile of this many pixels, with one thread per pixel.
const u32 TILE_WIDTH = 32;
const u32 TILE_HEIGHT = 8;
const u32 TILE = TILE_WIDTH * TILE_HEIGHT;

// Words that are read and written together, at addresses aligned to their size.
struct alignas(8) Words2 {
  u32 words[2];
};
struct alignas(16) Words4 {
  u32 words[4];
};

// The range of samples of one position of an axis.
struct TapRange {
  u32 start;
  u32 count;
};

// The weights of an axis. Vertical: weight k of position j at [j * taps + k], where `taps` is a multiple of 4 and unused weights are
// zero. Horizontal: at [k * positions + i], so that neighboring threads read neighboring weights.
struct AxisArgs {
  u64 tap_ranges;    // TapRange of each position
  u64 weights;  // i16
  u32 taps;
  u32 positions;
};

// One plane: samples of one to three components, `step` samples apart.
struct PlaneArgs {
  u64 address;
  u64 stride_bytes;
  u32 first;        // component here
  u32 components;   // here: 1, or the last 2, or all 3
  u32 offsets[3];   // of each of these inside a step
  u32 step;
  u32 row_samples;  // in a row, all components counted
  u32 is_chroma;    // 0: the axes of luma, 1: those of chroma
  u32 chunk;        // most columns that a block holds at a time
  u32 pitch;        // samples from row to row of what it holds: a multiple of 4
  u32 aligned;      // rows begin on multiples of 4 bytes
  u32 overshoots;   // rows have negative weights: vertical sums are clamped
};

// A mask (SPEC.md, step 6).
struct MaskArgs {
  u64 limit;
  u64 key;
  u32 region;       // see MaskRegion
  u32 fill;         // see MaskFill
  u32 rect[4];      // first column, first row, last column + 1, last row + 1
  u32 step_x[2];
  u32 step_y[2];
  u32 start[2];
  u32 elements[3];  // bytes of an element of each channel
  u32 unused;
};

enum MaskRegion { MASK_REGION_RECT = 0, MASK_REGION_GRID = 1 };
enum MaskFill { MASK_FILL_CONSTANT = 0, MASK_FILL_NOISE = 1 };
enum Placement { NO_WARP = 0, WARP_NEAREST = 1, WARP_BILINEAR = 2 };
enum Dtype { DTYPE_U8 = 0, DTYPE_F16 = 1, DTYPE_BF16 = 2, DTYPE_F32 = 3, DTYPE_U16 = 4 };

// The order in which a block stores its elements: neighboring threads store to neighboring addresses. Also whether complete tiles
// can be stored in words of four codes, with channels interleaved or planar.
enum Order { CHANNELS_FIRST = 1, ROWS_FIRST = 2, WORDS_INTERLEAVED = 4, WORDS_PLANAR = 8 };

// Tone mapping (SPEC.md): 15-bit components to 16-bit codes, and from those to 15-bit R, G, B.
struct ToneArgs {
  u64 light;        // u32 for every 16 codes
  u64 gain;         // u32 by luminance
  u64 code;         // u32 by light
  i32 factors[9];   // to codes
  i32 zero[3];
  u32 shift;
  u32 weights[3];
  i32 gamut[9];
  u32 unused;
};

// The argument of framespool_pixels, framespool_window and framespool_finish.
struct PixelArgs {
  PlaneArgs planes[3];
  AxisArgs columns[2];          // of luma and chroma
  AxisArgs rows[2];
  u64 sums;                 // 3 u64: the sum of each component over the window
  u64 components;           // i16: the window's components, plane by plane
  u64 slot;                 // element (0, 0, 0)
  u64 elements;             // 3 x 256 elements of code values
  u64 masks;                // Mask
  ToneArgs tone;                // used where has_tone_map is not 0
  i64 origin;               // element of pixel (0, 0) of the canvas in stored axes
  i64 step_i;               // from column to column
  i64 step_j;               // from row to row
  i64 channel_stride;
  i64 to_x[3];              // of a warp, to stored axes
  i64 to_y[3];
  i64 bias_constant[3];
  i64 fill_constant[3];
  i64 bias_mean_factors[9];
  i64 fill_mean_factors[9];
  i32 factors[9];
  i32 zero[3];
  i32 bias[3];              // where no mean is needed
  i32 fill[3];
  u32 color_shift;
  u32 plane_count;
  u32 component_count;      // 1 or 3, after tone mapping
  u32 depth_bits;
  u32 word_shift;
  u32 single_tap;           // no position has more than one tap
  u32 needs_mean;
  u32 placement;            // see Placement
  u32 window[2];            // width and height, in stored axes
  u32 canvas[2];
  u32 corner[2];            // of the window on the canvas
  i32 display_x[3];            // displayed column of canvas pixel (i, j): [0] i + [1] j + [2]
  i32 display_y[3];
  u32 output_width;         // as displayed
  u32 channels;             // 1 or 3
  u32 dtype;                // see Dtype
  u32 order;                // see Order
  u32 mask_count;
  u32 row_buffer_bytes;           // of shared memory for the chunk of rows, a multiple of 16
  float scale_u16[3];      // of 16-bit colors: an element is fma(color, scale, bias)
  float bias_u16[3];
  u32 use_u16;              // colors are made in 16 bits
  u32 has_tone_map;
};

enum Operation {
  OPERATION_TABLE = 0,
  OPERATION_HUE = 1,
  OPERATION_SHARPNESS = 2,
  OPERATION_BLUR_ROWS = 3,
  OPERATION_BLUR_COLUMNS = 4,
  OPERATION_HISTOGRAM = 5,
  OPERATION_AUTOCONTRAST_TABLE = 6,
  OPERATION_EQUALIZE_TABLE = 7
};

// The argument of framespool_rgb_operation.
struct OperationArgs {
  u64 source;        // planes R, G, B of u8, for OPERATION_BLUR_COLUMNS of u16
  u64 out;           // planes of u8, for OPERATION_BLUR_ROWS of u16; or 3 x 256 u8 of a table
  u64 table;         // u8 of a table, u32 weights of a blur
  u64 histogram;     // 3 x 256 u64
  u32 operation;     // see Operation
  u32 width;
  u32 height;
  u32 taps;
  i32 amount;
  u32 channel_step;  // from the table of a channel to the next; 0 if all have the same
};

enum DeinterlaceMethod { DEINTERLACE_BOB = 0, DEINTERLACE_LINEAR = 1 };

// The argument of framespool_deinterlace, for one plane.
struct DeinterlaceArgs {
  u64 source;
  u64 source_stride;
  u64 out;            // a multiple of 16, as is its stride
  u64 out_stride;
  u32 row_bytes;
  u32 rows;
  u32 first_kept;     // 0: the top field is kept, 1: the bottom field
  u32 method;         // see DeinterlaceMethod
  u32 depth_bits;
  u32 word_shift;
  u32 aligned;        // rows of the source begin on multiples of 4 bytes
  u32 unused;
};

// The argument of framespool_expand.
struct ExpandArgs {
  u64 codes;
  u64 out;
  u64 elements;       // 3 x 256
  u64 plane;          // codes of one channel after another; all of them where channels take turns
  u32 planes;
  u32 plane_step;     // blocks down the grid
  u32 channels;
  u32 first_channel;
  u32 interleaved;     // code n is of channel first_channel + n mod channels, else that of its plane
  u32 dtype;
  u32 aligned;        // four codes and four elements can be moved at a time
  u32 unused;
};
