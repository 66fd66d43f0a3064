/* In: the bytes of a JPEG file, memory of the caller's, and what the caller wants of them.
 * Out: its sizes, then its samples in that memory; or what libjpeg says is wrong.
 * Never: calls back, prints, exits, or goes on after a complaint that means damage.
 *
 * libjpeg tells of errors by a function that must not return. It returns here by longjmp, which may cross C frames only: that is why
 * this file is C. TurboJPEG's own interface wraps libjpeg likewise, but tells of the first warning only, and the first is often a harmless one.
 */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

/* What `still_open` found and arranged; the same struct is in libjpeg.rs. */
struct still_plane {
  uint32_t row_bytes; /* that libjpeg writes: whole blocks */
  uint32_t rows;      /* likewise */
  uint32_t log2_w;    /* the picture's width is this many powers of two above the plane's */
  uint32_t log2_h;
};

struct still_picture {
  uint32_t full_width; /* as stored */
  uint32_t full_height;
  uint32_t width; /* shrunk */
  uint32_t height;
  uint32_t layout; /* LAYOUT_ */
  struct still_plane planes[3];
};

enum { LAYOUT_GRAY = 1, LAYOUT_YUV = 2, LAYOUT_RGB = 3, LAYOUT_CMYK = 4 };
/* Answers of all calls. */
enum { ANSWER_OK = 0, ANSWER_DAMAGED = 1, ANSWER_UNSUPPORTED = 2, ANSWER_LIMIT = 3, ANSWER_BUG = 4 };

/* A plane's rows that one call of libjpeg fills: at most 4 blocks of 8. */
#define MAX_ROWS 32

struct still {
  struct jpeg_decompress_struct cinfo;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf back;
  int answer;
  int scan_limit;
  char words[JMSG_LENGTH_MAX];
  struct still_picture picture;
};

static void leave(j_common_ptr cinfo, int answer)
{
  struct still *still = (struct still *)cinfo->client_data;
  still->answer = answer;
  longjmp(still->back, 1);
}

static int answer_of_error(int code)
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
    return ANSWER_UNSUPPORTED;
  case JERR_NO_BACKING_STORE:
  case JERR_OUT_OF_MEMORY:
    return ANSWER_LIMIT;
  case JERR_BAD_STATE:
  case JERR_BAD_STRUCT_SIZE:
  case JERR_BAD_LIB_VERSION:
  case JERR_BUFFER_SIZE:
  case JERR_TOO_LITTLE_DATA:
    return ANSWER_BUG;
  default:
    return ANSWER_DAMAGED;
  }
}

static void on_error(j_common_ptr cinfo)
{
  struct still *still = (struct still *)cinfo->client_data;
  cinfo->err->format_message(cinfo, still->words);
  leave(cinfo, answer_of_error(cinfo->err->msg_code));
}

/* Warnings that leave every sample as the encoder meant it. All others are damage. */
static int is_harmless(int code)
{
  switch (code) {
  case JWRN_ADOBE_XFORM:     /* a color transform of an unknown number: taken as YCC, YCCK */
  case JWRN_BOGUS_ICC:       /* profiles are not read */
  case JWRN_EXTRANEOUS_DATA: /* bytes between segments, which belong to none */
  case JWRN_JFIF_MAJOR:      /* another version of JFIF's header */
  case JWRN_NOT_SEQUENTIAL:  /* a baseline scan with a progressive one's numbers, which are not used */
    return 1;
  default:
    return 0;
  }
}

static void on_message(j_common_ptr cinfo, int level)
{
  if (level < 0 && !is_harmless(cinfo->err->msg_code)) {
    struct still *still = (struct still *)cinfo->client_data;
    cinfo->err->format_message(cinfo, still->words);
    leave(cinfo, cinfo->err->msg_code == JWRN_TOO_MUCH_DATA ? ANSWER_BUG : ANSWER_DAMAGED);
  }
}

static void on_output(j_common_ptr cinfo) { (void)cinfo; }

/* A file of some KB may hold thousands of scans that each go over the whole picture. */
static void on_progress(j_common_ptr cinfo)
{
  struct still *still = (struct still *)cinfo->client_data;
  int scan = ((j_decompress_ptr)cinfo)->input_scan_number;
  if (scan > still->scan_limit) {
    snprintf(still->words, sizeof still->words, "more than %d scans", still->scan_limit);
    leave(cinfo, ANSWER_LIMIT);
  }
}

struct still *still_new(void)
{
  struct still *still = calloc(1, sizeof *still);
  if (!still) return NULL;
  still->cinfo.err = jpeg_std_error(&still->errors);
  still->errors.error_exit = on_error;
  still->errors.emit_message = on_message;
  still->errors.output_message = on_output;
  still->cinfo.client_data = still;
  still->progress.progress_monitor = on_progress;
  return still;
}

const char *still_words(const struct still *still) { return still->words; }

/* Forgets the picture, tables included. libjpeg's own way to go on (`jpeg_abort`) keeps Huffman and quantisation tables for files without any,
 * so that a picture that lost its own would come out differently after each other one. Making a decompressor anew costs some allocations. */
static int done(struct still *still, int answer)
{
  jpeg_destroy_decompress(&still->cinfo);
  return answer;
}

void still_close(struct still *still) { done(still, ANSWER_OK); }

void still_free(struct still *still)
{
  done(still, ANSWER_OK);
  free(still);
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

/* Sizes of the planes as stored; 0 if the kernels cannot read them so. Y must be the finest component, U and V alike. */
static int arrange_planes(struct still *still)
{
  j_decompress_ptr cinfo = &still->cinfo;
  int h_whole = cinfo->max_h_samp_factor * scaled_min(cinfo);
  int v_whole = cinfo->max_v_samp_factor * scaled_min(cinfo);
  for (int c = 0; c < cinfo->num_components; c++) {
    const jpeg_component_info *component = &cinfo->comp_info[c];
    struct still_plane *plane = &still->picture.planes[c];
    int h = component->h_samp_factor * scaled(component), v = component->v_samp_factor * scaled(component);
    int log2_w = log2_ratio(h_whole, h), log2_h = log2_ratio(v_whole, v);
    if (log2_w < 0 || log2_h < 0 || (c == 0 && (log2_w || log2_h))) return 0;
    plane->row_bytes = component->width_in_blocks * (uint32_t)scaled(component);
    plane->rows = cinfo->total_iMCU_rows * (uint32_t)v;
    plane->log2_w = (uint32_t)log2_w;
    plane->log2_h = (uint32_t)log2_h;
  }
  const struct still_plane *p = still->picture.planes;
  return cinfo->num_components == 1 || (p[1].log2_w == p[2].log2_w && p[1].log2_h == p[2].log2_h);
}

static void arrange_rows(struct still *still, J_COLOR_SPACE space, uint32_t layout, uint32_t pixel_bytes)
{
  j_decompress_ptr cinfo = &still->cinfo;
  cinfo->out_color_space = space;
  cinfo->raw_data_out = FALSE;
  jpeg_calc_output_dimensions(cinfo);
  memset(still->picture.planes, 0, sizeof still->picture.planes);
  still->picture.planes[0].row_bytes = cinfo->output_width * pixel_bytes;
  still->picture.planes[0].rows = cinfo->output_height;
  still->picture.layout = layout;
}

static void arrange(struct still *still, int shrink, int exact)
{
  j_decompress_ptr cinfo = &still->cinfo;
  struct still_picture *picture = &still->picture;
  cinfo->scale_num = 1;
  cinfo->scale_denom = (unsigned)shrink;
  cinfo->dct_method = JDCT_ISLOW;
  cinfo->raw_data_out = TRUE;
  jpeg_calc_output_dimensions(cinfo);
  memset(picture, 0, sizeof *picture);
  picture->full_width = cinfo->image_width;
  picture->full_height = cinfo->image_height;
  switch (cinfo->jpeg_color_space) {
  case JCS_GRAYSCALE:
    if (cinfo->num_components == 1 && arrange_planes(still)) {
      picture->layout = LAYOUT_GRAY;
      break;
    }
    arrange_rows(still, JCS_RGB, LAYOUT_RGB, 3);
    break;
  case JCS_YCbCr:
    if (!exact && cinfo->num_components == 3 && arrange_planes(still)) {
      picture->layout = LAYOUT_YUV;
      break;
    }
    arrange_rows(still, JCS_RGB, LAYOUT_RGB, 3);
    break;
  case JCS_RGB:
    arrange_rows(still, JCS_RGB, LAYOUT_RGB, 3);
    break;
  case JCS_CMYK:
  case JCS_YCCK:
    arrange_rows(still, JCS_CMYK, LAYOUT_CMYK, 4);
    break;
  default:
    snprintf(still->words, sizeof still->words, "a JPEG of %d components", cinfo->num_components);
    leave((j_common_ptr)cinfo, ANSWER_UNSUPPORTED);
  }
  picture->width = cinfo->output_width;
  picture->height = cinfo->output_height;
}

/* Reads the header of `data`, which must stay until `still_read` or `still_close`, and arranges the output. `shrink`: 1, 2, 4, 8.
 * Nothing is open before, and nothing after an answer that is not ANSWER_OK. */
int still_open(struct still *still, const uint8_t *data, size_t len, int shrink, int exact, int scan_limit, long max_memory,
               struct still_picture *picture)
{
  j_decompress_ptr cinfo = &still->cinfo;
  still->words[0] = 0;
  still->scan_limit = scan_limit;
  if (setjmp(still->back)) return done(still, still->answer);
  jpeg_create_decompress(cinfo);
  cinfo->progress = &still->progress;
  cinfo->mem->max_memory_to_use = max_memory;
  jpeg_mem_src(cinfo, data, len);
  jpeg_read_header(cinfo, TRUE);
  arrange(still, shrink, exact);
  *picture = still->picture;
  return ANSWER_OK;
}

/* The rest of a picture that was left in the middle is not decoded, but it must be there: whether a file was cut off must not depend on
 * what was wanted of it. Among coded samples a byte of 255 is followed by 0 or the number of a restart: nothing there looks like the end. */
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

/* Rows of blocks before `first` are not made into samples, and those from `end` on not even read. */
static void read_planes(struct still *still, uint8_t *const *planes, const size_t *strides, size_t first, size_t end)
{
  j_decompress_ptr cinfo = &still->cinfo;
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

static void read_rows(struct still *still, uint8_t *plane, size_t stride)
{
  j_decompress_ptr cinfo = &still->cinfo;
  JSAMPROW rows[MAX_ROWS];
  while (cinfo->output_scanline < cinfo->output_height) {
    JDIMENSION count = cinfo->output_height - cinfo->output_scanline;
    if (count > MAX_ROWS) count = MAX_ROWS;
    for (JDIMENSION r = 0; r < count; r++) rows[r] = plane + (cinfo->output_scanline + (size_t)r) * stride;
    jpeg_read_scanlines(cinfo, rows, count);
  }
}

/* Decodes what `still_open` arranged. Each plane has the rows that it said, `strides` apart, each at least as long as it said.
 * Of planes, what the picture's rows from `first` to before `end` show is good afterwards; of other layouts, everything. */
int still_read(struct still *still, uint8_t *const *planes, const size_t *strides, size_t first, size_t end)
{
  j_decompress_ptr cinfo = &still->cinfo;
  if (setjmp(still->back)) return done(still, still->answer);
  jpeg_start_decompress(cinfo);
  if (cinfo->raw_data_out)
    read_planes(still, planes, strides, first, end);
  else
    read_rows(still, planes[0], strides[0]);
  /* Reads up to the end marker: a file that lacks it is cut off, even where the last sample was in it. */
  if (cinfo->output_scanline < cinfo->output_height)
    find_end(cinfo);
  else
    jpeg_finish_decompress(cinfo);
  return done(still, ANSWER_OK);
}
