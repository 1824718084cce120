/* Xoe's input pipeline for C and for languages that call C: batches of decoded images, and streams of plain records.
 *
 * xoe/data/images.h, xoe/data/records.h and xoe/data/stages.h define the options, the order of elements and the saved
 * positions; this interface is the same without C++.
 *
 * Errors, threads, ownership, growing structs and units follow xoe/c.h: any thread may call any function at any time,
 * except for an object's _close, _free or last _release. Calls on one iterator wait for each other. Any thread may use
 * and release a batch or record, also after its iterator was closed.
 *
 * No function but the two that end in _open_on needs an engine or xoe_init(): each rank opens its shard, given its rank
 * and size. Those two also compare what the ranks open. Iterators have threads, so a forked process must not use those
 * of its parent.
 */
#ifndef XOE_C_DATA_H
#define XOE_C_DATA_H

#include "xoe/c.h"

/* Names and forms are C's: */
/* NOLINTBEGIN(modernize-use-using,modernize-redundant-void-arg,readability-identifier-naming) */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Options -------------------------------------------------------------------------------------------------- */

/* Options have names and texts, so that new ones need no new interface: docs/reference/data-options.md lists them, and
 * xoe_images_options_describe(). A number is "32", a flag "0" or "1", also "false" or "true"; "auto", "512M", "192x256"
 * and the like are in the list. */
typedef struct xoe_images_options xoe_images_options;

/* Creates options with the defaults of ImagePipelineOptions. Free them with xoe_images_options_free(). */
XOE_API xoe_status xoe_images_options_create(xoe_images_options** options);
/* XOE_INVALID_ARGUMENT names the key; for an unknown key the message lists the known ones, for a bad value the allowed
 * ones. xoe_images_open() checks ranges and combinations. */
XOE_API xoe_status xoe_images_options_set(xoe_images_options* options, const char* key, const char* value);
/* All options, one line "key=value" each, as xoe_images_options_set() takes them. Free the text with xoe_text_free().
 */
XOE_API xoe_status xoe_images_options_text(const xoe_images_options* options, char** text);
/* All options as JSON, a list of objects: name, group (a heading), default (as the function above writes it), choices
 * and what (for people), is_flag (true or false). Free the text with xoe_text_free(). */
XOE_API xoe_status xoe_images_options_describe(char** json);
/* Receives warnings during xoe_images_open(), in the thread that calls it; xoe_images_warnings() has later ones. Null:
 * all go to standard error. */
XOE_API xoe_status xoe_images_options_warn(xoe_images_options* options, xoe_warn warn, void* user);
/* Null is ignored. */
XOE_API void xoe_images_options_free(xoe_images_options* options);

/* The same for records. */
typedef struct xoe_records_options xoe_records_options;

XOE_API xoe_status xoe_records_options_create(xoe_records_options** options);
XOE_API xoe_status xoe_records_options_set(xoe_records_options* options, const char* key, const char* value);
XOE_API xoe_status xoe_records_options_text(const xoe_records_options* options, char** text);
XOE_API xoe_status xoe_records_options_describe(char** json);
XOE_API void xoe_records_options_free(xoe_records_options* options);

/* ---- Images --------------------------------------------------------------------------------------------------- */

/* A sequence of batches, endless or not: ImageIterator. */
typedef struct xoe_images xoe_images;

/* Opens the files, starts the threads and copies the options. XOE_UNAVAILABLE: no such directory, or no file that
 * matches. XOE_DATA_LOSS: a file is damaged or missing. XOE_INVALID_ARGUMENT: an option is out of range, or there are
 * too few records for one batch on all ranks. */
XOE_API xoe_status xoe_images_open(const xoe_images_options* options, xoe_images** images);
/* The same for this process's place among the ranks of an engine, which replaces the options rank and size (and
 * processes, where that is 1). Collective: all ranks open, or none does. They compare the names, sizes and numbers of
 * records of the files that they opened, and their batches: where these differ, or one rank fails, every rank gets that
 * error, which names the rank, its host and the first file that differs. Ranks that open several data sets do so in one
 * order. In the world that forms after a restart of ranks nothing is compared, because not all of them may
 * open. */
XOE_API xoe_status xoe_images_open_on(xoe_engine* engine, const xoe_images_options* options, xoe_images** images);
/* Ends the threads. Batches stay valid. Null is ignored. */
XOE_API void xoe_images_close(xoe_images* images);

/* The layout of pixels. The numbers never change. */
enum {
  XOE_NCHW = 0, /* [count, channels, height, width] */
  XOE_NHWC = 1  /* [count, height, width, channels] */
};

/* Images and their classes. The fields belong to the library; the owner may write to the elements of the tensors. A
 * tensor that the batch lacks has no data and no dimensions. The fields of a tensor are those of DLPack: to lend one
 * without a copy, retain the batch, and release it in the DLManagedTensor's deleter. */
typedef struct xoe_image_batch {
  size_t struct_size; /* the bytes that this library filled in */
  xoe_output pixels;  /* four dimensions, as `layout` says; aligned to 64 */
  xoe_output labels;  /* XOE_INT64 [count], counted from 0; none where images have several classes */
  xoe_output targets; /* XOE_FLOAT32 [count, classes], the share of each class; none where images have one class and
                         are not mixed */
  int32_t layout;
  int32_t count; /* may be 0 in evaluation, when only other ranks have records left */
  int64_t epoch; /* from 0 */
  int64_t index; /* of this batch within the epoch */
  int64_t left;  /* batches of the epoch that follow, the same on every rank */
  /* From here on only where struct_size tells that the library has it. */
  xoe_output records; /* XOE_INT64 [count]: the images' numbers in the data set, from 0 */
} xoe_image_batch;

/* The next batch; *batch is null at the end. Release it with xoe_image_batch_release(), so that its memory is reused.
 * After an error every later call returns the same error. */
XOE_API xoe_status xoe_images_next(xoe_images* images, xoe_image_batch** batch);
/* Adds an owner, which must call xoe_image_batch_release(), too. Null is ignored. */
XOE_API void xoe_image_batch_retain(xoe_image_batch* batch);
/* The last owner's call frees the batch. Null is ignored. */
XOE_API void xoe_image_batch_release(xoe_image_batch* batch);

/* Where image number `image` of a batch was read; any of the three may be null. *file, its path. *record, its number in
 * the file, from 0: of a TFRecord, of a sample in an archive, of an idx image; else 0. *name, as messages name it:
 * "data/train-00000-of-00004: record 17 at byte 90112". Free the texts with xoe_text_free(). XOE_INVALID_ARGUMENT: the
 * batch has no such image. */
XOE_API xoe_status xoe_image_batch_origin(const xoe_image_batch* batch, int32_t image, char** file, int64_t* record,
                                          char** name);

/* The position behind the last delivered batch: a short line of text, the same on every rank. Free it with
 * xoe_text_free(). */
XOE_API xoe_status xoe_images_save(xoe_images* images, char** text);
/* Continues from a position, bit for bit, also with another number of ranks or another batch. XOE_INVALID_ARGUMENT: the
 * position belongs to other data or another pipeline. After a failure the position is undefined until a restore
 * succeeds. */
XOE_API xoe_status xoe_images_restore(xoe_images* images, const char* text);

/* Continues with the first batch of an epoch. */
XOE_API xoe_status xoe_images_start_epoch(xoe_images* images, int64_t epoch);

/* Goes on as rank `rank` of `size`, of which `processes` are on this host. The files stay open; the position is the
 * beginning, so that xoe_images_restore() or xoe_images_start_epoch() comes next. Not collective: each rank does so for
 * itself. XOE_INVALID_ARGUMENT: a number is out of range, or there are too few records for a batch on all ranks;
 * nothing has changed then. */
XOE_API xoe_status xoe_images_reshard(xoe_images* images, int32_t rank, int32_t size, int32_t processes);

typedef struct xoe_images_facts {
  size_t struct_size;
  int64_t records_per_epoch; /* over all ranks, before dropping or padding */
  int64_t batches_per_epoch; /* the same on every rank */
  int32_t classes; /* where the files do not tell (TFRecord without labels.txt), the first call reads every record */
  int32_t multi_label;   /* batches have targets, not labels */
  int64_t skipped;       /* bad records left out so far; kept by save and restore */
  int64_t waited;        /* nanoseconds that callers of xoe_images_next() waited */
  uint64_t memory_bytes; /* upper bound of what batches in flight take */
  int64_t lost;          /* bad images and damage found when the files were opened; see max_bad */
  int64_t missing;       /* parts of the data that are missing and were left out; see allow_missing */
} xoe_images_facts;

/* struct_size: sizeof(xoe_images_facts). Null is ignored. */
XOE_API void xoe_images_facts_init(xoe_images_facts* facts, size_t struct_size);
XOE_API xoe_status xoe_images_facts_of(xoe_images* images, xoe_images_facts* facts);
/* batches_per_epoch alone, which is known without reading. */
XOE_API xoe_status xoe_images_batches_per_epoch(xoe_images* images, int64_t* batches);
/* records_per_epoch alone, which is known without reading, too. */
XOE_API xoe_status xoe_images_records_per_epoch(xoe_images* images, int64_t* records);

/* Warnings since the last call, one line each, and "" where there are none: which images were left out (max_bad). What
 * is not asked for goes to standard error when the iterator is closed, and so does everything where
 * xoe_images_options_warn() was not given a function. Free the text with xoe_text_free(). */
XOE_API xoe_status xoe_images_warnings(xoe_images* images, char** lines);

/* A JSON object on the time since the start or the last restore: "steps" (thread seconds and bytes of each), threads,
 * queue and waits, and "words", which name the bottleneck and what would help. Free it with xoe_text_free(). */
XOE_API xoe_status xoe_images_report(xoe_images* images, char** json);

/* ---- Records -------------------------------------------------------------------------------------------------- */

/* The records of TFRecord files, undecoded. */
typedef struct xoe_records xoe_records;

/* Patterns are paths whose parts may have *, ?, [...] and {a,b}; files that match several come once. `options` may be
 * null. XOE_UNAVAILABLE: a pattern that nothing matches. XOE_DATA_LOSS: a match is missing (allow_missing). */
XOE_API xoe_status xoe_records_open(const char* const* patterns, size_t count, const xoe_records_options* options,
                                    xoe_records** records);
/* As xoe_images_open_on(); the numbers of records are not compared, since nothing is read yet. */
XOE_API xoe_status xoe_records_open_on(xoe_engine* engine, const char* const* patterns, size_t count,
                                       const xoe_records_options* options, xoe_records** records);
/* Ends the threads. Records stay valid. Null is ignored. */
XOE_API void xoe_records_close(xoe_records* records);

/* The fields belong to the library, and data must not be written to. A record may keep a block of the file
 * (block_bytes) in memory: copy data that is kept for long. */
typedef struct xoe_record {
  size_t struct_size; /* what this library filled in */
  const void* data;
  size_t size;
  const char* file;
  int64_t number;  /* within its file, from 0; lost records count */
  uint64_t offset; /* of its header, in the file or in what it decompresses to */
} xoe_record;

/* The next record; *record is null at the end. Release it with xoe_record_release(). After an error every later call
 * returns the same error. */
XOE_API xoe_status xoe_records_next(xoe_records* records, xoe_record** record);
/* Null is ignored. */
XOE_API void xoe_record_release(xoe_record* record);

/* Passes over the next `count` records; *passed: how many there were, fewer at the end. */
XOE_API xoe_status xoe_records_skip(xoe_records* records, int64_t count, int64_t* passed);

/* File number `file` of all, in the order of their names: *path, which is to be freed with xoe_text_free(), and how
 * many records it has. The first call reads the headers of all files, or the index files beside them.
 * XOE_INVALID_ARGUMENT: there is no such file. */
XOE_API xoe_status xoe_records_file(xoe_records* records, int64_t file, char** path, int64_t* count);

/* As for images, but a position is valid for this rank only, with the same files, options, rank and size. With a
 * shuffle_buffer the epoch is read again up to the position. */
XOE_API xoe_status xoe_records_save(xoe_records* records, char** text);
XOE_API xoe_status xoe_records_restore(xoe_records* records, const char* text);

/* A JSON object: "files" (of this rank in an epoch), "records" (delivered since the start), "bad" (records left out;
 * those that are read again after a restore count again), "messages" (on the first 100 of them), "missing" (files left
 * out; see allow_missing) and "missing_files" (the first 100, and why). Free it with xoe_text_free(). */
XOE_API xoe_status xoe_records_report(xoe_records* records, char** json);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-use-using,modernize-redundant-void-arg,readability-identifier-naming) */
#endif
