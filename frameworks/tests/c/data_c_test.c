/* The input pipeline from C: data_c_test DIR, where DIR holds train-* and validation-* record files of images. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "frameworks/tests/c/c_test.h"
#include "xoe/c_data.h"

#define MOST_BATCHES 64

static uint64_t digest_of(const void* data, size_t bytes, uint64_t digest) {
  const unsigned char* at = data;
  for (size_t i = 0; i < bytes; ++i) digest = (digest ^ at[i]) * UINT64_C(1099511628211);
  return digest;
}

static size_t elements_of(const xoe_output* tensor) {
  size_t elements = tensor->ndim > 0 ? 1 : 0;
  for (int32_t i = 0; i < tensor->ndim; ++i) elements *= (size_t)tensor->shape[i];
  return elements;
}

static uint64_t digest_of_batch(const xoe_image_batch* batch) {
  uint64_t digest = digest_of(&batch->index, sizeof(batch->index), (uint64_t)batch->epoch);
  digest = digest_of(batch->labels.data, elements_of(&batch->labels) * sizeof(int64_t), digest);
  return digest_of(batch->pixels.data, elements_of(&batch->pixels) * xoe_dtype_size(batch->pixels.dtype), digest);
}

/* A number of the line "key=value" of a text of options. */
static int has_line(const char* text, const char* line) {
  const char* at = strstr(text, line);
  return at != NULL && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n';
}

static xoe_images_options* small(const char* directory) {
  static const char* const kChosen[][2] = {
      {"batch", "4"}, {"image_size", "16"}, {"seed", "18446744073709551615"}, {"epochs", "2"}, {"threads", "2"}};
  xoe_images_options* options = NULL;
  CHECK_OK(xoe_images_options_create(&options));
  CHECK_OK(xoe_images_options_set(options, "directory", directory));
  for (size_t i = 0; i < sizeof(kChosen) / sizeof(kChosen[0]); ++i)
    CHECK_OK(xoe_images_options_set(options, kChosen[i][0], kChosen[i][1]));
  return options;
}

static xoe_images* opened(xoe_images_options* options) {
  xoe_images* images = NULL;
  CHECK_OK(xoe_images_open(options, &images));
  return images;
}

static void test_options(void) {
  xoe_images_options* options = NULL;
  char* text = NULL;
  CHECK_OK(xoe_images_options_create(&options));
  CHECK_FAILS(xoe_images_options_set(options, "bach", "4"), XOE_INVALID_ARGUMENT,
              "images: there is no option 'bach'; there are directory, format, pattern, training, ");
  CHECK_FAILS(xoe_images_options_set(options, "batch", "4x"), XOE_INVALID_ARGUMENT, "option batch is '4x'");
  CHECK_FAILS(xoe_images_options_set(options, "batch", "4294967296"), XOE_INVALID_ARGUMENT, "1 to 1048576");
  CHECK_FAILS(xoe_images_options_set(options, "seed", "-1"), XOE_INVALID_ARGUMENT, "a whole number, 0 or more");
  CHECK_FAILS(xoe_images_options_set(options, "training", "yes"), XOE_INVALID_ARGUMENT, "0, 1, false or true");
  CHECK_FAILS(xoe_images_options_set(options, "quality", "good"), XOE_INVALID_ARGUMENT, "it may be exact, fast");
  CHECK_FAILS(xoe_images_options_set(options, "interpolation", "nearest"), XOE_INVALID_ARGUMENT, "bicubic, area");
  CHECK_FAILS(xoe_images_options_set(options, "image_size", "16x"), XOE_INVALID_ARGUMENT, "HEIGHTxWIDTH");
  CHECK_FAILS(xoe_images_options_set(options, "remainder", "none"), XOE_INVALID_ARGUMENT, "auto, or drop, pad, keep");
  CHECK_FAILS(xoe_images_options_set(options, "rand_augment", "2,9"), XOE_INVALID_ARGUMENT, "off, or OPERATIONS");
  CHECK_FAILS(xoe_images_options_set(options, "colour_jitter", "1,x,1,1"), XOE_INVALID_ARGUMENT, "BRIGHTNESS");
  CHECK_FAILS(xoe_images_options_set(options, "random_erasing", "noise"), XOE_INVALID_ARGUMENT, "may be noise");
  CHECK_FAILS(xoe_images_options_set(options, "mean", "1,2"), XOE_INVALID_ARGUMENT, "three numbers");
  CHECK_FAILS(xoe_images_options_set(options, "memory_budget", "much"), XOE_INVALID_ARGUMENT, "2GiB");
  CHECK_FAILS(xoe_images_options_set(options, "min_area", ""), XOE_INVALID_ARGUMENT, "a number");
  CHECK_OK(xoe_images_options_set(options, "threads", "auto"));
  CHECK_OK(xoe_images_options_set(options, "memory_budget", "2GiB"));
  CHECK_OK(xoe_images_options_set(options, "training", "false"));
  CHECK_OK(xoe_images_options_set(options, "dtype", "bfloat16"));
  CHECK_OK(xoe_images_options_set(options, "deviation", "0.5,0.25,1"));
  CHECK_OK(xoe_images_options_set(options, "random_erasing", "0.25,0.02,0.33,0.3,3.3,noise"));
  CHECK_OK(xoe_images_options_text(options, &text));
  CHECK(has_line(text, "batch=32") && has_line(text, "threads=auto") && has_line(text, "memory_budget=2147483648"));
  CHECK(has_line(text, "training=0") && has_line(text, "dtype=bfloat16") && has_line(text, "deviation=0.5,0.25,1"));
  CHECK(has_line(text, "image_size=224") && has_line(text, "interpolation=bilinear") && has_line(text, "antialias=1"));
  CHECK(has_line(text, "exif_orientation=0") && has_line(text, "max_pixels=67108864"));
  CHECK(has_line(text, "remainder=auto") && has_line(text, "format=auto") && has_line(text, "min_area=0.08"));
  CHECK(has_line(text, "random_erasing=0.25,0.02,0.33,0.3,3.3,noise") && has_line(text, "rand_augment=off"));
  xoe_text_free(text);
  xoe_images_options_free(options);
}

/* What the text says can be set again, for each key: a key that cannot be printed and read back is of no use. */
static void test_texts_of_options_can_be_set(void) {
  xoe_images_options* images = NULL;
  xoe_records_options* records = NULL;
  char* texts[2] = {NULL, NULL};
  CHECK_OK(xoe_images_options_create(&images));
  CHECK_OK(xoe_records_options_create(&records));
  CHECK_OK(xoe_images_options_text(images, &texts[0]));
  CHECK_OK(xoe_records_options_text(records, &texts[1]));
  for (int i = 0; i < 2; ++i) {
    char* rest = texts[i];
    char* again = NULL;
    char* const whole = strdup(texts[i]);
    for (char* line = strtok_r(texts[i], "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
      char* const value = strchr(line, '=');
      CHECK(value != NULL);
      *value = '\0';
      CHECK_OK(i == 0 ? xoe_images_options_set(images, line, value + 1)
                      : xoe_records_options_set(records, line, value + 1));
    }
    CHECK_OK(i == 0 ? xoe_images_options_text(images, &again) : xoe_records_options_text(records, &again));
    CHECK(strcmp(whole, again) == 0);
    free(whole);
    xoe_text_free(again);
    xoe_text_free(texts[i]);
  }
  xoe_images_options_free(images);
  xoe_records_options_free(records);
}

/* The digests of what is left; their number. */
static size_t drain(xoe_images* images, uint64_t* digests) {
  size_t count = 0;
  for (;;) {
    xoe_image_batch* batch = NULL;
    CHECK_OK(xoe_images_next(images, &batch));
    if (batch == NULL) return count;
    CHECK(batch->struct_size >= sizeof(xoe_image_batch) && batch->pixels.shape[0] == batch->count);
    CHECK(count < MOST_BATCHES);
    digests[count++] = digest_of_batch(batch);
    xoe_image_batch_release(batch);
  }
}

static void test_resume(const char* directory) {
  uint64_t expected[MOST_BATCHES];
  uint64_t rest[MOST_BATCHES];
  xoe_images_options* options = small(directory);
  xoe_images* whole = opened(options);
  const size_t count = drain(whole, expected);
  CHECK(count > 4 && count % 2 == 0);
  xoe_images_close(whole);
  for (size_t at = 0; at <= count; at += 3) {
    xoe_images* first = opened(options);
    xoe_images* second = opened(options);
    xoe_image_batch* batch = NULL;
    char* position = NULL;
    for (size_t i = 0; i < at; ++i) {
      CHECK_OK(xoe_images_next(first, &batch));
      xoe_image_batch_release(batch);
    }
    CHECK_OK(xoe_images_save(first, &position));
    CHECK_OK(xoe_images_restore(second, position));
    CHECK(drain(second, rest) == count - at);
    CHECK(memcmp(rest, expected + at, (count - at) * sizeof(rest[0])) == 0);
    CHECK_FAILS(xoe_images_restore(second, "nonsense"), XOE_INVALID_ARGUMENT, "nonsense");
    xoe_text_free(position);
    xoe_images_close(first);
    xoe_images_close(second);
  }
  xoe_images_options_free(options);
}

static void test_epochs_can_be_chosen(const char* directory) {
  uint64_t expected[MOST_BATCHES];
  uint64_t rest[MOST_BATCHES];
  xoe_images_options* options = small(directory);
  xoe_images* images = opened(options);
  const size_t count = drain(images, expected); /* of two epochs */
  CHECK_OK(xoe_images_start_epoch(images, 1));
  CHECK(drain(images, rest) == count / 2);
  CHECK(memcmp(rest, expected + count / 2, count / 2 * sizeof(rest[0])) == 0);
  CHECK_OK(xoe_images_start_epoch(images, 0));
  for (size_t i = 0; i < count; ++i) {
    xoe_image_batch* batch = NULL;
    CHECK_OK(xoe_images_next(images, &batch));
    CHECK(digest_of_batch(batch) == expected[i]);
    CHECK(batch->left == (int64_t)(count / 2) - 1 - batch->index);
    xoe_image_batch_release(batch);
  }
  CHECK_OK(xoe_images_start_epoch(images, 2));
  CHECK(drain(images, rest) == 0);
  CHECK_FAILS(xoe_images_start_epoch(images, -1), XOE_INVALID_ARGUMENT, "count from 0");
  CHECK_FAILS(xoe_images_start_epoch(NULL, 0), XOE_INVALID_ARGUMENT, "images");
  xoe_images_close(images);
  xoe_images_options_free(options);
}

static void* release_batch(void* batch) {
  xoe_image_batch_release(batch);
  return NULL;
}

/* Batches outlive their iterator, and any thread gives them back. */
static void test_batches_are_owned(const char* directory) {
  xoe_images_options* options = small(directory);
  xoe_images* images = opened(options);
  xoe_image_batch* batches[3];
  uint64_t digests[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(xoe_images_next(images, &batches[i]));
    digests[i] = digest_of_batch(batches[i]);
  }
  xoe_image_batch_retain(batches[0]);
  xoe_image_batch_release(batches[0]);
  xoe_images_close(images);
  for (int i = 0; i < 3; ++i) {
    CHECK(digest_of_batch(batches[i]) == digests[i]);
    memset(batches[i]->pixels.data, 0, elements_of(&batches[i]->pixels) * sizeof(float));
    CHECK(pthread_create(&threads[i], NULL, release_batch, batches[i]) == 0);
  }
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  xoe_images_options_free(options);
}

static void test_facts(const char* directory) {
  uint64_t digests[MOST_BATCHES];
  xoe_images_options* options = small(directory);
  xoe_images* images = opened(options);
  xoe_images_facts facts;
  char* json = NULL;
  memset(&facts, 0, sizeof(facts));
  CHECK_FAILS(xoe_images_facts_of(images, &facts), XOE_INVALID_ARGUMENT, "struct_size is 0");
  xoe_images_facts_init(&facts, sizeof(facts));
  CHECK_OK(xoe_images_facts_of(images, &facts));
  CHECK(facts.struct_size == sizeof(facts) && facts.classes > 1 && facts.multi_label == 0 && facts.skipped == 0);
  CHECK(facts.batches_per_epoch == facts.records_per_epoch / 4 && facts.memory_bytes > 0 && facts.waited == 0);
  CHECK(drain(images, digests) == 2 * (size_t)facts.batches_per_epoch);
  CHECK_OK(xoe_images_facts_of(images, &facts));
  CHECK(facts.waited > 0);
  CHECK_OK(xoe_images_report(images, &json));
  CHECK(json[0] == '{' && strstr(json, "\"steps\":[{\"name\":") != NULL && strstr(json, "\"words\":\"") != NULL);
  xoe_text_free(json);
  xoe_images_close(images);
  xoe_images_options_free(options);
}

static void test_images_errors(const char* directory) {
  xoe_images_options* options = small(directory);
  xoe_images* images = NULL;
  xoe_image_batch* batch = NULL;
  xoe_images_facts facts;
  char* text = NULL;
  CHECK_OK(xoe_images_options_set(options, "batch", "0"));
  CHECK_FAILS(xoe_images_open(options, &images), XOE_INVALID_ARGUMENT, "batch");
  CHECK_OK(xoe_images_options_set(options, "batch", "4"));
  CHECK_OK(xoe_images_options_set(options, "directory", "/nowhere"));
  CHECK_FAILS(xoe_images_open(options, &images), XOE_UNAVAILABLE, "/nowhere");
  CHECK_FAILS(xoe_images_open(NULL, &images), XOE_INVALID_ARGUMENT, "options is null");
  CHECK_FAILS(xoe_images_open(options, NULL), XOE_INVALID_ARGUMENT, "images is null");
  CHECK(images == NULL);
  CHECK_FAILS(xoe_images_next(NULL, &batch), XOE_INVALID_ARGUMENT, "images is null");
  CHECK_FAILS(xoe_images_save(NULL, &text), XOE_INVALID_ARGUMENT, "images is null");
  CHECK_FAILS(xoe_images_restore(NULL, ""), XOE_INVALID_ARGUMENT, "images is null");
  CHECK_FAILS(xoe_images_report(NULL, &text), XOE_INVALID_ARGUMENT, "images is null");
  CHECK_FAILS(xoe_images_facts_of(NULL, &facts), XOE_INVALID_ARGUMENT, "images is null");
  CHECK_FAILS(xoe_images_options_create(NULL), XOE_INVALID_ARGUMENT, "options is null");
  CHECK_FAILS(xoe_images_options_set(NULL, "batch", "1"), XOE_INVALID_ARGUMENT, "options is null");
  CHECK_FAILS(xoe_images_options_set(options, NULL, "1"), XOE_INVALID_ARGUMENT, "key is null");
  CHECK_FAILS(xoe_images_options_set(options, "batch", NULL), XOE_INVALID_ARGUMENT, "value is null");
  CHECK_FAILS(xoe_images_options_text(options, NULL), XOE_INVALID_ARGUMENT, "text is null");
  CHECK_OK(xoe_images_options_set(options, "directory", directory));
  images = opened(options);
  CHECK_FAILS(xoe_images_next(images, NULL), XOE_INVALID_ARGUMENT, "batch is null");
  CHECK_FAILS(xoe_images_restore(images, NULL), XOE_INVALID_ARGUMENT, "text is null");
  CHECK_FAILS(xoe_images_save(images, NULL), XOE_INVALID_ARGUMENT, "text is null");
  CHECK_FAILS(xoe_images_facts_of(images, NULL), XOE_INVALID_ARGUMENT, "facts is null");
  xoe_images_close(images);
  xoe_images_close(NULL);
  xoe_image_batch_retain(NULL);
  xoe_image_batch_release(NULL);
  xoe_images_facts_init(NULL, 0);
  xoe_images_options_free(options);
  xoe_images_options_free(NULL);
}

static void test_records(const char* directory) {
  char pattern[4096];
  const char* const patterns[] = {pattern};
  xoe_records_options* options = NULL;
  xoe_records* records = NULL;
  xoe_record* record = NULL;
  xoe_record* first = NULL;
  char* json = NULL;
  snprintf(pattern, sizeof(pattern), "%s/train-*", directory);
  CHECK_OK(xoe_records_options_create(&options));
  CHECK_FAILS(xoe_records_options_set(options, "batch", "1"), XOE_INVALID_ARGUMENT, "there are rank, size, ");
  CHECK_OK(xoe_records_options_set(options, "epochs", "1"));
  CHECK_OK(xoe_records_open(patterns, 1, options, &records));
  CHECK_OK(xoe_records_next(records, &first));
  CHECK(first->struct_size >= sizeof(xoe_record) && first->number == 0 && first->offset == 0 && first->size > 0);
  CHECK(strstr(first->file, "train-00000") != NULL);
  const uint64_t digest = digest_of(first->data, first->size, 0);
  int64_t count = 0;
  for (;; ++count) {
    CHECK_OK(xoe_records_next(records, &record));
    if (record == NULL) break;
    xoe_record_release(record);
  }
  CHECK_OK(xoe_records_report(records, &json));
  CHECK(count > 0 && strstr(json, "\"bad\":0") != NULL);
  xoe_text_free(json);
  xoe_records_close(records);
  CHECK(digest_of(first->data, first->size, 0) == digest);
  xoe_record_release(first);
  xoe_records_options_free(options);
}

static void test_records_errors(void) {
  const char* const nowhere[] = {"/nowhere/*"};
  const char* const null[] = {NULL};
  xoe_records* records = NULL;
  xoe_record* record = NULL;
  char* text = NULL;
  CHECK_FAILS(xoe_records_open(nowhere, 1, NULL, &records), XOE_UNAVAILABLE, "/nowhere");
  CHECK_FAILS(xoe_records_open(NULL, 1, NULL, &records), XOE_INVALID_ARGUMENT, "patterns is null");
  CHECK_FAILS(xoe_records_open(null, 1, NULL, &records), XOE_INVALID_ARGUMENT, "pattern 0 is null");
  CHECK_FAILS(xoe_records_open(nowhere, 0, NULL, &records), XOE_INVALID_ARGUMENT, "no patterns");
  CHECK_FAILS(xoe_records_open(nowhere, 1, NULL, NULL), XOE_INVALID_ARGUMENT, "records is null");
  CHECK_FAILS(xoe_records_next(NULL, &record), XOE_INVALID_ARGUMENT, "records is null");
  CHECK_FAILS(xoe_records_save(NULL, &text), XOE_INVALID_ARGUMENT, "records is null");
  CHECK_FAILS(xoe_records_restore(NULL, ""), XOE_INVALID_ARGUMENT, "records is null");
  CHECK_FAILS(xoe_records_report(NULL, &text), XOE_INVALID_ARGUMENT, "records is null");
  CHECK_FAILS(xoe_records_options_create(NULL), XOE_INVALID_ARGUMENT, "options is null");
  CHECK_FAILS(xoe_records_options_text(NULL, &text), XOE_INVALID_ARGUMENT, "options is null");
  CHECK(records == NULL);
  xoe_records_close(NULL);
  xoe_record_release(NULL);
  xoe_records_options_free(NULL);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: data_c_test DIR\n");
    return 2;
  }
  setenv("XOE_RANK", "0", 1); /* for messages */
  test_options();
  test_texts_of_options_can_be_set();
  test_resume(argv[1]);
  test_epochs_can_be_chosen(argv[1]);
  test_batches_are_owned(argv[1]);
  test_facts(argv[1]);
  test_images_errors(argv[1]);
  test_records(argv[1]);
  test_records_errors();
  return 0;
}
