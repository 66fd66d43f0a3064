/* Decodes a JPEG file in memory with libjpeg: reports its sizes, then writes its samples into memory of the caller.
 * Never calls back, prints or exits, and stops at the first warning that means damage.
 *
 * libjpeg reports errors through a function that must not return. That function leaves by longjmp, which may cross C frames only: this is
 * why this file is C. TurboJPEG's own interface wraps libjpeg in the same way, but reports only the first warning, which is often harmless.
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

/* The result of `framespool_jpeg_open`; libjpeg.rs declares the same struct. */
struct framespool_jpeg_plane {
  uint32_t row_bytes; /* written by libjpeg: complete blocks */
  uint32_t rows;      /* likewise */
  uint32_t log2_w;    /* log2 of the image's width over the plane's */
  uint32_t log2_h;
};

struct framespool_jpeg_info {
  uint32_t full_width; /* as stored */
  uint32_t full_height;
  uint32_t width; /* scaled */
  uint32_t height;
  uint32_t layout; /* LAYOUT_ */
  struct framespool_jpeg_plane planes[3];
};

enum { LAYOUT_GRAY = 1, LAYOUT_YUV = 2, LAYOUT_RGB = 3, LAYOUT_CMYK = 4 };
/* Status of all calls. */
enum { STATUS_OK = 0, STATUS_DAMAGED = 1, STATUS_UNSUPPORTED = 2, STATUS_LIMIT = 3, STATUS_BUG = 4 };

/* A plane's rows that one call of libjpeg fills: at most 4 blocks of 8. */
#define MAX_ROWS 32

struct framespool_jpeg {
  struct jpeg_decompress_struct cinfo;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf error_jump;
  int status;
  int scan_limit;
  char message[JMSG_LENGTH_MAX];
  struct framespool_jpeg_info info;
};

static void fail(j_common_ptr cinfo, int status)
{
  struct framespool_jpeg *jpeg = (struct framespool_jpeg *)cinfo->client_data;
  jpeg->status = status;
  longjmp(jpeg->error_jump, 1);
}

static int status_of_error(int code)
{
  switch (code) {
  case JERR_ARITH_NOTIMPL:
  case JERR_BAD_PRECISION:
  case JERR_CCIR601_NOTIMPL:
  case JERR_CONVERSION_NOTIMPL:
  case JERR_FRACT_SAMPLE_NOTIMPL:
  case JERR_IMAGE_TOO_BIG:
  case JERR_NOTIMPL:
  case JERR_NOT_COMPILED:
  case JERR_SOF_UNSUPPORTED:
    return STATUS_UNSUPPORTED;
  case JERR_NO_BACKING_STORE:
  case JERR_OUT_OF_MEMORY:
    return STATUS_LIMIT;
  case JERR_BAD_STATE:
  case JERR_BAD_STRUCT_SIZE:
  case JERR_BAD_LIB_VERSION:
  case JERR_BUFFER_SIZE:
  case JERR_TOO_LITTLE_DATA:
    return STATUS_BUG;
  default:
    return STATUS_DAMAGED;
  }
}

static void on_error(j_common_ptr cinfo)
{
  struct framespool_jpeg *jpeg = (struct framespool_jpeg *)cinfo->client_data;
  cinfo->err->format_message(cinfo, jpeg->message);
  fail(cinfo, status_of_error(cinfo->err->msg_code));
}

/* Warnings after which every sample is still what the encoder wrote. All others mean damage. */
static int is_harmless(int code)
{
  switch (code) {
  case JWRN_ADOBE_XFORM:     /* unknown color transform number: treated as YCC or YCCK */
  case JWRN_BOGUS_ICC:       /* profiles are not read */
  case JWRN_EXTRANEOUS_DATA: /* bytes between segments */
  case JWRN_JFIF_MAJOR:      /* another JFIF version */
  case JWRN_NOT_SEQUENTIAL:  /* a baseline scan with parameters of a progressive scan, which are not used */
    return 1;
  default:
    return 0;
  }
}

static void on_message(j_common_ptr cinfo, int level)
{
  if (level < 0 && !is_harmless(cinfo->err->msg_code)) {
    struct framespool_jpeg *jpeg = (struct framespool_jpeg *)cinfo->client_data;
    cinfo->err->format_message(cinfo, jpeg->message);
    fail(cinfo, cinfo->err->msg_code == JWRN_TOO_MUCH_DATA ? STATUS_BUG : STATUS_DAMAGED);
  }
}

static void on_output(j_common_ptr cinfo) { (void)cinfo; }

/* Limits the scans: a file of a few KB may contain thousands, each over the entire image. */
static void on_progress(j_common_ptr cinfo)
{
  struct framespool_jpeg *jpeg = (struct framespool_jpeg *)cinfo->client_data;
  int scan = ((j_decompress_ptr)cinfo)->input_scan_number;
  if (scan > jpeg->scan_limit) {
    snprintf(jpeg->message, sizeof jpeg->message, "more than %d scans", jpeg->scan_limit);
    fail(cinfo, STATUS_LIMIT);
  }
}

struct framespool_jpeg *framespool_jpeg_new(void)
{
  struct framespool_jpeg *jpeg = calloc(1, sizeof *jpeg);
  if (!jpeg) return NULL;
  jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
  jpeg->errors.error_exit = on_error;
  jpeg->errors.emit_message = on_message;
  jpeg->errors.output_message = on_output;
  jpeg->cinfo.client_data = jpeg;
  jpeg->progress.progress_monitor = on_progress;
  return jpeg;
}

const char *framespool_jpeg_message(const struct framespool_jpeg *jpeg) { return jpeg->message; }

/* Discards the image, including its tables. libjpeg's own `jpeg_abort` keeps Huffman and quantization tables for files without tables, so the
 * result for an image that lost its tables would depend on the previous image. Creating another decompressor costs a few allocations. */
static int finish(struct framespool_jpeg *jpeg, int status)
{
  jpeg_destroy_decompress(&jpeg->cinfo);
  return status;
}

void framespool_jpeg_close(struct framespool_jpeg *jpeg) { finish(jpeg, STATUS_OK); }

void framespool_jpeg_free(struct framespool_jpeg *jpeg)
{
  finish(jpeg, STATUS_OK);
  free(jpeg);
}

/* The power of two by which `whole` is a multiple of `part`: 0, 1, 2; -1 for anything else. */
static int log2_ratio(int whole, int part)
{
  if (whole == part) return 0;
  if (whole == part * 2) return 1;
  if (whole == part * 4) return 2;
  return -1;
}

static int scaled(const jpeg_component_info *component)
{
#if JPEG_LIB_VERSION >= 70
  return component->DCT_h_scaled_size;
#else
  return component->DCT_scaled_size;
#endif
}

static int scaled_min(j_decompress_ptr cinfo)
{
#if JPEG_LIB_VERSION >= 70
  return cinfo->min_DCT_h_scaled_size;
#else
  return cinfo->min_DCT_scaled_size;
#endif
}

/* Sizes of the planes as stored; 0 if the kernels cannot read them so. Y must be the finest component, U and V of equal size. */
static int configure_planes(struct framespool_jpeg *jpeg)
{
  j_decompress_ptr cinfo = &jpeg->cinfo;
  int h_whole = cinfo->max_h_samp_factor * scaled_min(cinfo);
  int v_whole = cinfo->max_v_samp_factor * scaled_min(cinfo);
  for (int c = 0; c < cinfo->num_components; c++) {
    const jpeg_component_info *component = &cinfo->comp_info[c];
    struct framespool_jpeg_plane *plane = &jpeg->info.planes[c];
    int h = component->h_samp_factor * scaled(component), v = component->v_samp_factor * scaled(component);
    int log2_w = log2_ratio(h_whole, h), log2_h = log2_ratio(v_whole, v);
    if (log2_w < 0 || log2_h < 0 || (c == 0 && (log2_w || log2_h))) return 0;
    plane->row_bytes = component->width_in_blocks * (uint32_t)scaled(component);
    plane->rows = cinfo->total_iMCU_rows * (uint32_t)v;
    plane->log2_w = (uint32_t)log2_w;
    plane->log2_h = (uint32_t)log2_h;
  }
  const struct framespool_jpeg_plane *p = jpeg->info.planes;
  return cinfo->num_components == 1 || (p[1].log2_w == p[2].log2_w && p[1].log2_h == p[2].log2_h);
}

static void configure_rows(struct framespool_jpeg *jpeg, J_COLOR_SPACE space, uint32_t layout, uint32_t pixel_bytes)
{
  j_decompress_ptr cinfo = &jpeg->cinfo;
  cinfo->out_color_space = space;
  cinfo->raw_data_out = FALSE;
  jpeg_calc_output_dimensions(cinfo);
  memset(jpeg->info.planes, 0, sizeof jpeg->info.planes);
  jpeg->info.planes[0].row_bytes = cinfo->output_width * pixel_bytes;
  jpeg->info.planes[0].rows = cinfo->output_height;
  jpeg->info.layout = layout;
}

static void configure_output(struct framespool_jpeg *jpeg, int scale, int exact)
{
  j_decompress_ptr cinfo = &jpeg->cinfo;
  struct framespool_jpeg_info *info = &jpeg->info;
  cinfo->scale_num = 1;
  cinfo->scale_denom = (unsigned)scale;
  cinfo->dct_method = JDCT_ISLOW;
  cinfo->raw_data_out = TRUE;
  jpeg_calc_output_dimensions(cinfo);
  memset(info, 0, sizeof *info);
  info->full_width = cinfo->image_width;
  info->full_height = cinfo->image_height;
  switch (cinfo->jpeg_color_space) {
  case JCS_GRAYSCALE:
    if (cinfo->num_components == 1 && configure_planes(jpeg)) {
      info->layout = LAYOUT_GRAY;
      break;
    }
    configure_rows(jpeg, JCS_RGB, LAYOUT_RGB, 3);
    break;
  case JCS_YCbCr:
    if (!exact && cinfo->num_components == 3 && configure_planes(jpeg)) {
      info->layout = LAYOUT_YUV;
      break;
    }
    configure_rows(jpeg, JCS_RGB, LAYOUT_RGB, 3);
    break;
  case JCS_RGB:
    configure_rows(jpeg, JCS_RGB, LAYOUT_RGB, 3);
    break;
  case JCS_CMYK:
  case JCS_YCCK:
    configure_rows(jpeg, JCS_CMYK, LAYOUT_CMYK, 4);
    break;
  default:
    snprintf(jpeg->message, sizeof jpeg->message, "a JPEG of %d components", cinfo->num_components);
    fail((j_common_ptr)cinfo, STATUS_UNSUPPORTED);
  }
  info->width = cinfo->output_width;
  info->height = cinfo->output_height;
}

/* Reads the header of `data`, which must stay valid until `framespool_jpeg_read` or `framespool_jpeg_close`, and configures the output. `scale`: 1, 2, 4, 8.
 * No image may be open before; none is open after a status other than STATUS_OK. */
int framespool_jpeg_open(struct framespool_jpeg *jpeg, const uint8_t *data, size_t len, int scale, int exact, int scan_limit, long max_memory,
               struct framespool_jpeg_info *info)
{
  j_decompress_ptr cinfo = &jpeg->cinfo;
  jpeg->message[0] = 0;
  jpeg->scan_limit = scan_limit;
  if (setjmp(jpeg->error_jump)) return finish(jpeg, jpeg->status);
  jpeg_create_decompress(cinfo);
  cinfo->progress = &jpeg->progress;
  cinfo->mem->max_memory_to_use = max_memory;
  jpeg_mem_src(cinfo, data, len);
  jpeg_read_header(cinfo, TRUE);
  configure_output(jpeg, scale, exact);
  *info = jpeg->info;
  return STATUS_OK;
}

/* Checks that the end marker of a partially decoded image exists: whether a file is truncated must not depend on which rows were requested.
 * In coded data, a byte of 255 is followed by 0 or a restart marker's number, so nothing in it looks like the end marker. */
static void find_end(j_decompress_ptr cinfo)
{
  if (jpeg_input_complete(cinfo) || cinfo->unread_marker == JPEG_EOI) return;
  const uint8_t *next = cinfo->src->next_input_byte;
  size_t left = cinfo->src->bytes_in_buffer;
  while (left >= 2) {
    const uint8_t *found = memchr(next, 0xff, left - 1);
    if (!found) break;
    if (found[1] == JPEG_EOI) return;
    left -= (size_t)(found + 1 - next);
    next = found + 1;
  }
  WARNMS(cinfo, JWRN_JPEG_EOF);
}

/* Block rows before `first` are read but not converted to samples; those from `end` on are not read. */
static void read_planes(struct framespool_jpeg *jpeg, uint8_t *const *planes, const size_t *strides, size_t first, size_t end)
{
  j_decompress_ptr cinfo = &jpeg->cinfo;
  JSAMPROW rows[3][MAX_ROWS];
  JSAMPARRAY arrays[3] = {rows[0], rows[1], rows[2]};
  int lines = cinfo->max_v_samp_factor * scaled_min(cinfo);
  for (size_t group = 0; cinfo->output_scanline < cinfo->output_height && cinfo->output_scanline < end; group++) {
    for (int c = 0; c < cinfo->num_components; c++) {
      jpeg_component_info *component = &cinfo->comp_info[c];
      component->component_needed = (group + 1) * (size_t)lines > first;
      size_t count = (size_t)(component->v_samp_factor * scaled(component));
      for (size_t r = 0; r < count; r++) rows[c][r] = planes[c] + (group * count + r) * strides[c];
    }
    jpeg_read_raw_data(cinfo, arrays, (JDIMENSION)lines);
  }
}

static void read_rows(struct framespool_jpeg *jpeg, uint8_t *plane, size_t stride)
{
  j_decompress_ptr cinfo = &jpeg->cinfo;
  JSAMPROW rows[MAX_ROWS];
  while (cinfo->output_scanline < cinfo->output_height) {
    JDIMENSION count = cinfo->output_height - cinfo->output_scanline;
    if (count > MAX_ROWS) count = MAX_ROWS;
    for (JDIMENSION r = 0; r < count; r++) rows[r] = plane + (cinfo->output_scanline + (size_t)r) * stride;
    jpeg_read_scanlines(cinfo, rows, count);
  }
}

/* Decodes the image that `framespool_jpeg_open` configured. Each plane has at least the number and length of rows of the info, `strides` apart.
 * With planes, only the samples of image rows `first` to before `end` are valid afterwards; with other layouts, all are. */
int framespool_jpeg_read(struct framespool_jpeg *jpeg, uint8_t *const *planes, const size_t *strides, size_t first, size_t end)
{
  j_decompress_ptr cinfo = &jpeg->cinfo;
  if (setjmp(jpeg->error_jump)) return finish(jpeg, jpeg->status);
  jpeg_start_decompress(cinfo);
  if (cinfo->raw_data_out)
    read_planes(jpeg, planes, strides, first, end);
  else
    read_rows(jpeg, planes[0], strides[0]);
  /* Reads up to the end marker: a file without it is truncated, even if it contains the last sample. */
  if (cinfo->output_scanline < cinfo->output_height)
    find_end(cinfo);
  else
    jpeg_finish_decompress(cinfo);
  return finish(jpeg, STATUS_OK);
}
