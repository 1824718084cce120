/* What the parts of the test of the C interface share. */
#ifndef XOE_TESTS_CAPI_C_TEST_H
#define XOE_TESTS_CAPI_C_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xoe/c.h"

#define RANKS 3

/* Ends the rank when the condition does not hold. */
#define CHECK(condition)                                                                                           \
  do {                                                                                                             \
    if (!(condition)) {                                                                                            \
      fprintf(stderr, "%s:%d: rank %s: %s (last error: %s)\n", __FILE__, __LINE__, getenv("XOE_RANK"), #condition, \
              xoe_last_error());                                                                                   \
      exit(1);                                                                                                     \
    }                                                                                                              \
  } while (0)
#define CHECK_OK(call) CHECK((call) == XOE_OK)
/* Fails with this code, and a text that contains these words. */
#define CHECK_FAILS(call, code, words)              \
  do {                                              \
    CHECK((call) == (code));                        \
    CHECK(strstr(xoe_last_error(), words) != NULL); \
  } while (0)

struct rank_context {
  xoe_engine* engine;
  int rank;
  int to_others[2]; /* a pipe from rank 0 to the others */
};

xoe_request request_of(int32_t kind, const char* name, const xoe_tensor* tensors, size_t count);
xoe_tensor floats(const float* in, float* out, const int64_t* shape, int32_t ndim);

void test_vocabulary(void);                         /* names.c: without an engine */
void test_optimizer_steps(void);                    /* optimizer_steps.c: without an engine */
void test_stats(void);                              /* stats.c: without an engine */
void test_arguments_without_engine(void);           /* arguments.c */
void test_arguments(struct rank_context* here);     /* arguments.c: on each rank */
void test_operations(struct rank_context* here);    /* operations.c */
void test_handles(struct rank_context* here);       /* handles.c */
void test_buckets(struct rank_context* here);       /* buckets.c */
void test_shard_sums(struct rank_context* here);    /* shard_sums.c */
void test_data_of_ranks(struct rank_context* here); /* data_ranks.c */

#endif
