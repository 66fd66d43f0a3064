// In: the structs of args.h. Out: a compile error where the host lays one out otherwise. Never: edited by hand: the test in
// ../src/device/args.rs prints what belongs here.

#pragma once

#include "args.h"

#define FIELD_IS_AT(type, field, bytes) \
  static_assert(__builtin_offsetof(type, field) == bytes, "the host puts " #type "." #field " elsewhere")
#define SIZE_IS(type, bytes) static_assert(sizeof(type) == bytes, "the host makes " #type " of another size")

SIZE_IS(Span, 8);
FIELD_IS_AT(Span, start, 0);
FIELD_IS_AT(Span, count, 4);
SIZE_IS(Axis, 24);
FIELD_IS_AT(Axis, spans, 0);
FIELD_IS_AT(Axis, weights, 8);
FIELD_IS_AT(Axis, taps, 16);
FIELD_IS_AT(Axis, positions, 20);
SIZE_IS(Sheet, 56);
FIELD_IS_AT(Sheet, address, 0);
FIELD_IS_AT(Sheet, stride_bytes, 8);
FIELD_IS_AT(Sheet, offsets, 16);
FIELD_IS_AT(Sheet, step, 28);
FIELD_IS_AT(Sheet, row_samples, 32);
FIELD_IS_AT(Sheet, grid, 36);
FIELD_IS_AT(Sheet, chunk, 40);
FIELD_IS_AT(Sheet, pitch, 44);
FIELD_IS_AT(Sheet, aligned, 48);
FIELD_IS_AT(Sheet, unused, 52);
SIZE_IS(Mask, 80);
FIELD_IS_AT(Mask, limit, 0);
FIELD_IS_AT(Mask, key, 8);
FIELD_IS_AT(Mask, area, 16);
FIELD_IS_AT(Mask, paint, 20);
FIELD_IS_AT(Mask, rect, 24);
FIELD_IS_AT(Mask, step_x, 40);
FIELD_IS_AT(Mask, step_y, 48);
FIELD_IS_AT(Mask, start, 56);
FIELD_IS_AT(Mask, elements, 64);
FIELD_IS_AT(Mask, unused, 76);
SIZE_IS(PixelArgs, 752);
FIELD_IS_AT(PixelArgs, sheets, 0);
FIELD_IS_AT(PixelArgs, columns, 168);
FIELD_IS_AT(PixelArgs, rows, 216);
FIELD_IS_AT(PixelArgs, sums, 264);
FIELD_IS_AT(PixelArgs, components, 272);
FIELD_IS_AT(PixelArgs, slot, 280);
FIELD_IS_AT(PixelArgs, elements, 288);
FIELD_IS_AT(PixelArgs, masks, 296);
FIELD_IS_AT(PixelArgs, origin, 304);
FIELD_IS_AT(PixelArgs, step_i, 312);
FIELD_IS_AT(PixelArgs, step_j, 320);
FIELD_IS_AT(PixelArgs, channel_stride, 328);
FIELD_IS_AT(PixelArgs, to_x, 336);
FIELD_IS_AT(PixelArgs, to_y, 360);
FIELD_IS_AT(PixelArgs, bias_constant, 384);
FIELD_IS_AT(PixelArgs, fill_constant, 408);
FIELD_IS_AT(PixelArgs, bias_of_mean, 432);
FIELD_IS_AT(PixelArgs, fill_of_mean, 504);
FIELD_IS_AT(PixelArgs, factors, 576);
FIELD_IS_AT(PixelArgs, zero, 612);
FIELD_IS_AT(PixelArgs, bias, 624);
FIELD_IS_AT(PixelArgs, fill, 636);
FIELD_IS_AT(PixelArgs, colour_shift, 648);
FIELD_IS_AT(PixelArgs, sheet_count, 652);
FIELD_IS_AT(PixelArgs, component_count, 656);
FIELD_IS_AT(PixelArgs, depth_bits, 660);
FIELD_IS_AT(PixelArgs, word_shift, 664);
FIELD_IS_AT(PixelArgs, single, 668);
FIELD_IS_AT(PixelArgs, needs_mean, 672);
FIELD_IS_AT(PixelArgs, place, 676);
FIELD_IS_AT(PixelArgs, window, 680);
FIELD_IS_AT(PixelArgs, canvas, 688);
FIELD_IS_AT(PixelArgs, corner, 696);
FIELD_IS_AT(PixelArgs, show_x, 704);
FIELD_IS_AT(PixelArgs, show_y, 716);
FIELD_IS_AT(PixelArgs, output_width, 728);
FIELD_IS_AT(PixelArgs, channels, 732);
FIELD_IS_AT(PixelArgs, dtype, 736);
FIELD_IS_AT(PixelArgs, order, 740);
FIELD_IS_AT(PixelArgs, mask_count, 744);
FIELD_IS_AT(PixelArgs, held_bytes, 748);
SIZE_IS(ExpandArgs, 64);
FIELD_IS_AT(ExpandArgs, codes, 0);
FIELD_IS_AT(ExpandArgs, out, 8);
FIELD_IS_AT(ExpandArgs, elements, 16);
FIELD_IS_AT(ExpandArgs, plane, 24);
FIELD_IS_AT(ExpandArgs, planes, 32);
FIELD_IS_AT(ExpandArgs, plane_step, 36);
FIELD_IS_AT(ExpandArgs, channels, 40);
FIELD_IS_AT(ExpandArgs, first_channel, 44);
FIELD_IS_AT(ExpandArgs, take_turns, 48);
FIELD_IS_AT(ExpandArgs, dtype, 52);
FIELD_IS_AT(ExpandArgs, aligned, 56);
FIELD_IS_AT(ExpandArgs, unused, 60);
