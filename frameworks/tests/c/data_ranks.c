/* Ranks that open data together are told when they open different ones. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "frameworks/tests/c/c_test.h"
#include "xoe/c_data.h"

static void put_bytes(const char* folder, const char* name, size_t bytes) {
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL);
  for (size_t i = 0; i < bytes; ++i) CHECK(fputc('x', file) == 'x');
  CHECK(fclose(file) == 0);
}

static xoe_status open_parts(struct rank_context* here, const char* folder) {
  char pattern[256];
  snprintf(pattern, sizeof(pattern), "%s/part-*", folder);
  const char* const patterns[] = {pattern};
  xoe_records_options* options = NULL;
  xoe_records* records = NULL;
  CHECK_OK(xoe_records_options_create(&options));
  CHECK_OK(xoe_records_options_set(options, "shard_by_file", "0"));
  const xoe_status status = xoe_records_open_on(here->engine, patterns, 1, options, &records);
  CHECK((status == XOE_OK) == (records != NULL));
  xoe_records_close(records);
  xoe_records_options_free(options);
  return status;
}

void test_data_of_ranks(struct rank_context* here) {
  char folder[] = "/tmp/xoe-test-c-XXXXXX"; /* each rank has its own, as on hosts of their own */
  char path[256];
  const int last = here->rank == RANKS - 1;
  CHECK(mkdtemp(folder) != NULL);
  put_bytes(folder, "part-0", 10);
  put_bytes(folder, "part-1", 20);
  CHECK_OK(open_parts(here, folder));
  put_bytes(folder, "part-1", last ? 21 : 20);
  CHECK_FAILS(open_parts(here, folder), XOE_INVALID_ARGUMENT, "First difference: part-1 has 21 bytes on rank ");
  put_bytes(folder, "part-1", 20);
  put_bytes(folder, last ? "part-2" : "other", 5);
  CHECK_FAILS(open_parts(here, folder), XOE_INVALID_ARGUMENT, "part-2 is absent on rank 0");
  put_bytes(folder, last ? "part-1" : "other", last ? 0 : 5);
  CHECK_FAILS(open_parts(here, folder), XOE_DATA_LOSS, "part-1: empty");

  xoe_images_options* options = NULL;
  xoe_images* images = NULL;
  CHECK_OK(xoe_images_options_create(&options));
  CHECK_OK(xoe_images_options_set(options, "directory", "/no/such/folder"));
  CHECK_FAILS(xoe_images_open_on(here->engine, options, &images), XOE_UNAVAILABLE, "/no/such/folder");
  CHECK_FAILS(xoe_images_open_on(NULL, options, &images), XOE_INVALID_ARGUMENT, "engine is null");
  xoe_images_options_free(options);

  static const char* const kNames[] = {"part-0", "part-1", "part-2", "other"};
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    snprintf(path, sizeof(path), "%s/%s", folder, kNames[i]);
    (void)unlink(path);
  }
  CHECK(rmdir(folder) == 0);
}
