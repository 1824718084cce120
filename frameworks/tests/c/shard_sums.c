/* Sums over logical shards: as a framework uses them, and each error. */
#define _POSIX_C_SOURCE 200809L
#include "frameworks/tests/c/c_test.h"

enum { SHARDS = 5, COUNT = 1000 };

static xoe_shard_sum* create(struct rank_context* here) {
  xoe_shard_sum* sum = NULL;
  CHECK_OK(xoe_shard_sum_create(here->engine, "sum", SHARDS, COUNT, 0.5, &sum));
  return sum;
}

static void steps_of_sums(struct rank_context* here) {
  xoe_shard_sum* sum = create(here);
  float values[COUNT];
  const float* const pieces[] = {values, NULL};
  const size_t counts[] = {COUNT - 10, 10};
  for (int step = 0; step < 3; ++step) {
    int32_t begin = -1, end = -1;
    float* result = NULL;
    CHECK_OK(xoe_shard_sum_range(sum, &begin, &end));
    CHECK(begin == SHARDS * here->rank / RANKS && end == SHARDS * (here->rank + 1) / RANKS);
    for (int32_t shard = begin; shard < end; ++shard) {
      for (size_t i = 0; i < COUNT; ++i) values[i] = (float)(shard + step);
      CHECK_OK(xoe_shard_sum_add(sum, shard, pieces, counts, 2));
    }
    while (result == NULL) CHECK_OK(xoe_shard_sum_wait(sum, 1000000, &result));
    const float expected = 0.5F * (float)(SHARDS * (SHARDS - 1) / 2 + SHARDS * step);
    for (size_t i = 0; i < COUNT; ++i) CHECK(result[i] == (i < counts[0] ? expected : 0));
  }
  xoe_shard_sum_free(sum);
}

static void arguments_of_sums(struct rank_context* here) {
  xoe_shard_sum* sum = NULL;
  float values[COUNT] = {0};
  const float* const pieces[] = {values};
  size_t counts[] = {COUNT};
  int32_t begin = 0, end = 0;
  float* result = NULL;
  CHECK_FAILS(xoe_shard_sum_create(NULL, "sum", SHARDS, COUNT, 1, &sum), XOE_INVALID_ARGUMENT, "engine is null");
  CHECK_FAILS(xoe_shard_sum_create(here->engine, NULL, SHARDS, COUNT, 1, &sum), XOE_INVALID_ARGUMENT, "name is null");
  CHECK_FAILS(xoe_shard_sum_create(here->engine, "sum", SHARDS, COUNT, 1, NULL), XOE_INVALID_ARGUMENT, "sum is null");
  CHECK_FAILS(xoe_shard_sum_create(here->engine, "sum", 0, COUNT, 1, &sum), XOE_INVALID_ARGUMENT, "shards is 0");
  CHECK_FAILS(xoe_shard_sum_create(here->engine, "sum", RANKS - 1, COUNT, 1, &sum), XOE_INVALID_ARGUMENT,
              "and each needs one");
  CHECK_FAILS(xoe_shard_sum_create(here->engine, "sum", SHARDS, (size_t)-1, 1, &sum), XOE_INVALID_ARGUMENT, "count is");
  sum = create(here);
  CHECK_FAILS(xoe_shard_sum_range(NULL, &begin, &end), XOE_INVALID_ARGUMENT, "sum is null");
  CHECK_FAILS(xoe_shard_sum_range(sum, NULL, &end), XOE_INVALID_ARGUMENT, "begin is null");
  CHECK_OK(xoe_shard_sum_range(sum, &begin, &end));
  CHECK_FAILS(xoe_shard_sum_add(sum, begin, NULL, counts, 1), XOE_INVALID_ARGUMENT, "values is null");
  CHECK_FAILS(xoe_shard_sum_add(sum, begin, pieces, NULL, 1), XOE_INVALID_ARGUMENT, "counts is null");
  CHECK_FAILS(xoe_shard_sum_add(sum, end, pieces, counts, 1), XOE_INVALID_ARGUMENT, "the next one of this rank is");
  counts[0] = COUNT + 1;
  CHECK_FAILS(xoe_shard_sum_add(sum, begin, pieces, counts, 1), XOE_INVALID_ARGUMENT, "has more than 1000 values");
  CHECK_FAILS(xoe_shard_sum_wait(sum, 0, &result), XOE_INVALID_ARGUMENT, "has not been added");
  CHECK_FAILS(xoe_shard_sum_wait(sum, -1, &result), XOE_INVALID_ARGUMENT, "timeout is -1");
  CHECK_FAILS(xoe_shard_sum_wait(sum, 0, NULL), XOE_INVALID_ARGUMENT, "result is null");
  counts[0] = COUNT;
  CHECK_OK(xoe_shard_sum_add(sum, begin, pieces, counts, 1));
  CHECK_OK(xoe_shard_sum_reset(sum));
  CHECK_OK(xoe_shard_sum_add(sum, begin, pieces, counts, 1));
  xoe_shard_sum_free(sum);
  xoe_shard_sum_free(NULL);
}

void test_shard_sums(struct rank_context* here) {
  arguments_of_sums(here);
  steps_of_sums(here);
}
