/* Buckets of gradients: as a framework uses them, and each error. */
#define _POSIX_C_SOURCE 200809L
#include "frameworks/tests/c/c_test.h"

enum { PARAMETERS = 3 };
static const int64_t shapes[PARAMETERS][2] = {{2, 3}, {4, 1}, {1000, 1}};
static const char* const names[PARAMETERS] = {"conv.weight", "conv.bias", "head.weight"};

static void describe(xoe_parameter* parameters) {
  memset(parameters, 0, PARAMETERS * sizeof(xoe_parameter));
  for (size_t i = 0; i < PARAMETERS; ++i) {
    parameters[i].name = names[i];
    parameters[i].shape = shapes[i];
    parameters[i].ndim = 2;
    parameters[i].dtype = XOE_FLOAT32;
  }
}

static xoe_request average(void) {
  xoe_request request = request_of(XOE_ALLREDUCE, "gradient", NULL, 0);
  request.reduce = XOE_AVERAGE;
  return request;
}

static void wait_for(xoe_buckets* buckets) {
  int32_t done = 0;
  while (done == 0) CHECK_OK(xoe_buckets_wait(buckets, 1000000, &done));
}

static void test_steps(struct rank_context* here) {
  const xoe_request request = average();
  xoe_parameter parameters[PARAMETERS];
  xoe_buckets* buckets = NULL;
  float* slots[PARAMETERS];
  size_t count = 0;
  describe(parameters);
  CHECK_OK(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 4096, &buckets));
  CHECK_OK(xoe_buckets_count(buckets, &count));
  CHECK(count == 2);
  for (size_t i = 0; i < PARAMETERS; ++i) {
    void* data = NULL;
    CHECK_OK(xoe_buckets_slot(buckets, i, &data));
    CHECK(data != NULL && (uintptr_t)data % 64 == 0);
    slots[i] = data;
  }
  for (int step = 0; step < 3; ++step) {
    float gradient[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 6; ++i) gradient[i] *= (float)(step + here->rank);
    CHECK_OK(xoe_buckets_put(buckets, 1, NULL)); /* no rank has computed it */
    for (int i = 0; i < 1000; ++i) slots[2][i] = (float)here->rank;
    CHECK_OK(xoe_buckets_put(buckets, 2, slots[2])); /* it lies there */
    CHECK_OK(xoe_buckets_put(buckets, 0, gradient));
    wait_for(buckets);
    CHECK(slots[0][0] == (float)(step + 1) && slots[0][5] == 6 * (float)(step + 1));
    CHECK(slots[1][0] == 0 && slots[1][3] == 0);
    CHECK(slots[2][0] == 1 && slots[2][999] == 1);
  }
  int32_t done = 0;
  CHECK_FAILS(xoe_buckets_wait(buckets, 0, &done), XOE_INVALID_ARGUMENT, "no gradient of conv.weight, conv.bias");
  CHECK_OK(xoe_buckets_put(buckets, 0, slots[0]));
  CHECK_FAILS(xoe_buckets_put(buckets, 0, slots[0]), XOE_INVALID_ARGUMENT, "conv.weight is there already");
  CHECK_FAILS(xoe_buckets_put(buckets, PARAMETERS, slots[0]), XOE_INVALID_ARGUMENT, "is not in the buckets");
  CHECK_OK(xoe_buckets_reset(buckets));
  for (size_t i = 0; i < PARAMETERS; ++i)
    CHECK_OK(i == 1 && here->rank == 2 ? xoe_buckets_leave_out(buckets, i) : xoe_buckets_put(buckets, i, NULL));
  xoe_status status = XOE_OK;
  for (done = 0; status == XOE_OK && done == 0;) status = xoe_buckets_wait(buckets, 1000000, &done);
  CHECK_FAILS(status, XOE_INVALID_ARGUMENT,
              "without conv.bias, which it does not train, or has with another type or shape now");
  xoe_buckets_free(buckets);
}

static void test_arguments_of_buckets(struct rank_context* here) {
  xoe_request request = average();
  xoe_parameter parameters[PARAMETERS];
  xoe_buckets* buckets = NULL;
  int32_t done = 0;
  size_t count = 0;
  void* data = NULL;
  describe(parameters);
  CHECK_FAILS(xoe_buckets_create(NULL, &request, parameters, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT, "engine");
  CHECK_FAILS(xoe_buckets_create(here->engine, NULL, parameters, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT,
              "request");
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, NULL, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT,
              "parameters is null");
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, NULL), XOE_INVALID_ARGUMENT,
              "buckets is null");
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, -1, &buckets), XOE_INVALID_ARGUMENT,
              "bucket_bytes is -1");
  parameters[1].name = names[0];
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT,
              "parameter 1: there are two");
  parameters[1].name = NULL;
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT,
              "parameter 1: name is null");
  describe(parameters);
  parameters[2].dtype = 99;
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT,
              "parameter 2: dtype is 99");
  describe(parameters);
  const int64_t huge[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 16};
  parameters[2].shape = huge;
  parameters[2].ndim = 3;
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT,
              "parameter 2: a tensor of more than");
  describe(parameters);
  parameters[0].reserved[3] = 1;
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, &buckets), XOE_UNSUPPORTED,
              "reserved");
  describe(parameters);
  request.kind = XOE_BROADCAST;
  CHECK_FAILS(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, &buckets), XOE_INVALID_ARGUMENT,
              "an allreduce");
  CHECK(buckets == NULL);
  describe(parameters);
  request = average();
  request.compression = XOE_COMPRESSION_TOP_K; /* looks at each tensor as a whole */
  CHECK_OK(xoe_buckets_create(here->engine, &request, parameters, PARAMETERS, 0, &buckets));
  CHECK_OK(xoe_buckets_count(buckets, &count));
  CHECK(count == PARAMETERS);
  xoe_buckets_free(buckets);
  CHECK_FAILS(xoe_buckets_count(NULL, &count), XOE_INVALID_ARGUMENT, "buckets is null");
  CHECK_FAILS(xoe_buckets_slot(NULL, 0, &data), XOE_INVALID_ARGUMENT, "buckets is null");
  CHECK_FAILS(xoe_buckets_put(NULL, 0, NULL), XOE_INVALID_ARGUMENT, "buckets is null");
  CHECK_FAILS(xoe_buckets_leave_out(NULL, 0), XOE_INVALID_ARGUMENT, "buckets is null");
  CHECK_FAILS(xoe_buckets_wait(NULL, 0, &done), XOE_INVALID_ARGUMENT, "buckets is null");
  CHECK_FAILS(xoe_buckets_reset(NULL), XOE_INVALID_ARGUMENT, "buckets is null");
  xoe_buckets_free(NULL);
  request = average();
  CHECK_OK(xoe_buckets_create(here->engine, &request, parameters, 0, 0, &buckets));
  CHECK_FAILS(xoe_buckets_slot(buckets, 0, &data), XOE_INVALID_ARGUMENT, "parameter 0 was asked for; there are 0");
  CHECK_FAILS(xoe_buckets_slot(buckets, 0, NULL), XOE_INVALID_ARGUMENT, "data is null");
  CHECK_FAILS(xoe_buckets_count(buckets, NULL), XOE_INVALID_ARGUMENT, "count is null");
  CHECK_FAILS(xoe_buckets_wait(buckets, 0, NULL), XOE_INVALID_ARGUMENT, "done is null");
  CHECK_FAILS(xoe_buckets_wait(buckets, -1, &done), XOE_INVALID_ARGUMENT, "timeout is -1");
  CHECK_OK(xoe_buckets_wait(buckets, 0, &done));
  CHECK(done == 1);
  xoe_buckets_free(buckets);
}

void test_buckets(struct rank_context* here) {
  test_arguments_of_buckets(here);
  test_steps(here);
  CHECK_OK(xoe_keep_freed_memory());
  setenv("XOE_KEEP_FREED_MEMORY", "maybe", 1);
  CHECK_FAILS(xoe_keep_freed_memory(), XOE_INVALID_ARGUMENT, "XOE_KEEP_FREED_MEMORY");
  unsetenv("XOE_KEEP_FREED_MEMORY");
}
