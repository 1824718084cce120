/* Each kind of operation, on all ranks. */
#include "frameworks/tests/c/c_test.h"

static void run_ok(struct rank_context* here, const xoe_request* request) { CHECK_OK(xoe_run(here->engine, request)); }

/* The handle of a completed operation. */
static xoe_handle* completed(struct rank_context* here, const xoe_request* request) {
  xoe_handle* handle = NULL;
  CHECK_OK(xoe_submit(here->engine, request, &handle));
  CHECK_OK(xoe_wait(handle));
  CHECK(strcmp(xoe_handle_error(handle), "") == 0);
  return handle;
}

static void test_allreduce(struct rank_context* here) {
  const int64_t shape[] = {2, 2};
  const float mine = (float)(here->rank + 1);
  const float in[4] = {mine, mine, 2 * mine, -mine};
  float out[4] = {0, 0, 0, 0};
  xoe_tensor tensor = floats(in, out, shape, 2);
  xoe_request request = request_of(XOE_ALLREDUCE, "sum", &tensor, 1);
  run_ok(here, &request);
  CHECK(out[0] == 6 && out[1] == 6 && out[2] == 12 && out[3] == -6);
  request.name = "max";
  request.reduce = XOE_MAX;
  run_ok(here, &request);
  CHECK(out[0] == 3 && out[3] == -1);
  request.name = "scaled";
  request.reduce = XOE_SUM;
  request.prescale = 0.5;
  request.postscale = 4;
  run_ok(here, &request);
  CHECK(out[0] == 12 && out[2] == 24);
  request = request_of(XOE_ALLREDUCE, "compressed", &tensor, 1);
  request.compression = XOE_COMPRESSION_BFLOAT16;
  run_ok(here, &request);
  CHECK(out[0] == 6 && out[2] == 12);
  request = request_of(XOE_ALLREDUCE, NULL, &tensor, 1); /* unnamed: by order */
  run_ok(here, &request);
  run_ok(here, &request);
  CHECK(out[0] == 6 && in[0] == mine);
}

static void test_group(struct rank_context* here) {
  const int64_t count[] = {3};
  const int64_t whole[] = {1};
  float values[3] = {1, 2, 3};
  int64_t integers[1] = {here->rank};
  xoe_tensor tensors[2] = {floats(values, values, count, 1), {integers, integers, whole, 1, XOE_INT64, {0, 0, 0, 0}}};
  xoe_request request = request_of(XOE_ALLREDUCE, "group", tensors, 2);
  run_ok(here, &request);
  CHECK(values[0] == RANKS && values[2] == 3 * RANKS && integers[0] == 3);
}

static void test_adasum(struct rank_context* here) {
  const int64_t shape[] = {2};
  float values[2] = {3, 4}; /* equal on all ranks: the result is the same again */
  const xoe_tensor tensor = floats(values, values, shape, 1);
  const xoe_request request = request_of(XOE_ADASUM, "adasum", &tensor, 1);
  run_ok(here, &request);
  CHECK(values[0] > 2.999F && values[0] < 3.001F && values[1] > 3.999F && values[1] < 4.001F);
}

/* Rank r gives r rows of two. */
static void test_allgather(struct rank_context* here) {
  const int64_t shape[] = {here->rank, 2};
  const float in[4] = {(float)here->rank, 1, (float)here->rank, 2};
  const xoe_tensor tensor = floats(in, NULL, shape, 2);
  const xoe_request request = request_of(XOE_ALLGATHER, "gather", &tensor, 1);
  int64_t rows[RANKS] = {-1, -1, -1};
  size_t count = 0;
  xoe_output output;
  xoe_handle* handle = completed(here, &request);
  CHECK_OK(xoe_output_count(handle, &count));
  CHECK(count == 1);
  CHECK_OK(xoe_output_at(handle, 0, &output));
  CHECK(output.ndim == 2 && output.shape[0] == 3 && output.shape[1] == 2 && output.dtype == XOE_FLOAT32);
  const float* data = output.data;
  CHECK(data[0] == 1 && data[1] == 1 && data[2] == 2 && data[4] == 2 && data[5] == 2);
  CHECK_FAILS(xoe_output_at(handle, 1, &output), XOE_INVALID_ARGUMENT, "output 1 was asked for; there are 1");
  CHECK_FAILS(xoe_output_at(handle, 0, NULL), XOE_INVALID_ARGUMENT, "output is null");
  CHECK_OK(xoe_received_splits(handle, NULL, 0, &count));
  CHECK(count == RANKS);
  CHECK_OK(xoe_received_splits(handle, rows, 2, &count));
  CHECK(rows[0] == 0 && rows[1] == 1 && rows[2] == -1);
  CHECK_OK(xoe_received_splits(handle, rows, RANKS, &count));
  CHECK(rows[2] == 2);
  xoe_release(handle);
}

struct memory {
  float values[16];
  int calls;
  int refuse;
};

static void* allocate(void* user, size_t index, const int64_t* shape, int32_t ndim, int32_t dtype) {
  struct memory* memory = user;
  ++memory->calls;
  CHECK(index == 0 && ndim == 1 && shape[0] == 2 * RANKS && dtype == XOE_FLOAT32);
  return memory->refuse ? NULL : memory->values;
}

static void test_allocator(struct rank_context* here) {
  const int64_t shape[] = {2};
  const float in[2] = {(float)here->rank, 7};
  const xoe_tensor tensor = floats(in, NULL, shape, 1);
  struct memory memory = {{0}, 0, 0};
  xoe_request request = request_of(XOE_ALLGATHER, "allocated", &tensor, 1);
  xoe_output output;
  request.allocator = allocate;
  request.allocator_user = &memory;
  xoe_handle* handle = completed(here, &request);
  CHECK_OK(xoe_output_at(handle, 0, &output));
  CHECK(memory.calls == 1 && output.data == memory.values && memory.values[4] == 2 && memory.values[5] == 7);
  xoe_release(handle);
  request.name = "refused";
  memory.refuse = here->rank == 1; /* fails on this rank alone */
  CHECK(xoe_run(here->engine, &request) == (here->rank == 1 ? XOE_RESOURCE_EXHAUSTED : XOE_OK));
}

static void test_broadcast(struct rank_context* here) {
  const int64_t shape[] = {2};
  const int64_t bytes[] = {here->rank == 2 ? 5 : 0};
  float values[2] = {(float)here->rank, 1};
  xoe_tensor tensor = floats(values, values, shape, 1);
  xoe_request request = request_of(XOE_BROADCAST, "broadcast", &tensor, 1);
  request.root = 1;
  run_ok(here, &request);
  CHECK(values[0] == 1);
  request.root = RANKS;
  CHECK(xoe_run(here->engine, &request) == XOE_INVALID_ARGUMENT);

  xoe_output output;
  const xoe_tensor text = {here->rank == 2 ? "hello" : NULL, NULL, bytes, 1, XOE_UINT8, {0, 0, 0, 0}};
  request = request_of(XOE_BROADCAST_BYTES, "bytes", &text, 1);
  request.root = 2;
  xoe_handle* handle = completed(here, &request);
  CHECK_OK(xoe_output_at(handle, 0, &output));
  CHECK(output.ndim == 1 && output.shape[0] == 5 && memcmp(output.data, "hello", 5) == 0);
  xoe_release(handle);
}

/* Rank r gives r + 1 rows to each rank. */
static void test_alltoall(struct rank_context* here) {
  const int64_t each = here->rank + 1;
  const int64_t shape[] = {RANKS * each};
  const int64_t splits[RANKS] = {each, each, each};
  float in[9];
  int64_t rows[RANKS];
  size_t count = 0;
  xoe_output output;
  for (int i = 0; i < 9; ++i) in[i] = (float)(10 * here->rank + i);
  const xoe_tensor tensor = floats(in, NULL, shape, 1);
  xoe_request request = request_of(XOE_ALLTOALL, "alltoall", &tensor, 1);
  request.splits = splits;
  request.split_count = RANKS;
  xoe_handle* handle = completed(here, &request);
  CHECK_OK(xoe_output_at(handle, 0, &output));
  CHECK_OK(xoe_received_splits(handle, rows, RANKS, &count));
  CHECK(count == RANKS && rows[0] == 1 && rows[1] == 2 && rows[2] == 3 && output.shape[0] == 6);
  const float* data = output.data;
  CHECK(data[0] == (float)here->rank && data[1] == (float)(10 + 2 * here->rank) &&
        data[3] == (float)(20 + 3 * here->rank));
  xoe_release(handle);
  request = request_of(XOE_ALLTOALL, "equal parts", &tensor, 1);
  xoe_release(completed(here, &request));
}

/* Seven rows: three, two and two. */
static void test_reduce_scatter(struct rank_context* here) {
  const int64_t shape[] = {7};
  float in[7];
  xoe_output output;
  for (int i = 0; i < 7; ++i) in[i] = (float)i;
  const xoe_tensor tensor = floats(in, NULL, shape, 1);
  const xoe_request request = request_of(XOE_REDUCE_SCATTER, "reduce_scatter", &tensor, 1);
  xoe_handle* handle = completed(here, &request);
  CHECK_OK(xoe_output_at(handle, 0, &output));
  const float* data = output.data;
  CHECK(output.shape[0] == (here->rank == 0 ? 3 : 2));
  CHECK(data[0] == (float)(RANKS * (here->rank == 0 ? 0 : 1 + 2 * here->rank)));
  xoe_release(handle);
}

static void test_sparse(struct rank_context* here) {
  const int64_t rows[] = {1};
  const int64_t shape[] = {1, 2};
  const int64_t index[1] = {here->rank};
  const float values[2] = {1, 2};
  const xoe_tensor tensors[2] = {{index, NULL, rows, 1, XOE_INT64, {0, 0, 0, 0}}, floats(values, NULL, shape, 2)};
  const xoe_request request = request_of(XOE_SPARSE_ALLREDUCE, "sparse", tensors, 2);
  size_t count = 0;
  xoe_output output;
  xoe_handle* handle = completed(here, &request);
  CHECK_OK(xoe_output_count(handle, &count));
  CHECK(count == 2);
  CHECK_OK(xoe_output_at(handle, 0, &output));
  CHECK(output.dtype == XOE_INT64 && output.shape[0] == RANKS);
  CHECK_OK(xoe_output_at(handle, 1, &output));
  CHECK(output.dtype == XOE_FLOAT32 && output.ndim == 2 && output.shape[0] == RANKS && output.shape[1] == 2);
  xoe_release(handle);
}

static void test_barrier_and_join(struct rank_context* here) {
  const xoe_request barrier = request_of(XOE_BARRIER, NULL, NULL, 0);
  const xoe_request join = request_of(XOE_JOIN, NULL, NULL, 0);
  int32_t last = -1;
  run_ok(here, &barrier);
  xoe_handle* handle = completed(here, &join);
  CHECK_OK(xoe_last_joined(handle, &last));
  CHECK(last >= 0 && last < RANKS);
  CHECK_FAILS(xoe_last_joined(handle, NULL), XOE_INVALID_ARGUMENT, "rank is null");
  xoe_release(handle);
}

/* The set {2, 0}: rank 2 is its rank 0. */
static void test_process_sets(struct rank_context* here) {
  const int32_t members[] = {2, 0};
  const int64_t shape[] = {1};
  float value = (float)(here->rank + 1);
  int32_t set = -1;
  int32_t found[4] = {-1, -1, -1, -1};
  int32_t rank = -1;
  size_t count = 0;
  CHECK_OK(xoe_add_process_set(here->engine, members, 2, &set));
  CHECK(set != XOE_WORLD_SET);
  CHECK_OK(xoe_process_sets(here->engine, found, 4, &count));
  CHECK(count == 2 && (found[0] == set || found[1] == set));
  CHECK_OK(xoe_process_set_ranks(here->engine, set, found, 4, &count));
  CHECK(count == 2 && found[0] == 2 && found[1] == 0);
  CHECK(xoe_process_set_rank(here->engine, set, &rank) == (here->rank == 1 ? XOE_INVALID_ARGUMENT : XOE_OK));
  if (here->rank != 1) {
    const xoe_tensor tensor = floats(&value, &value, shape, 1);
    xoe_request request = request_of(XOE_ALLREDUCE, "in the set", &tensor, 1);
    request.process_set = set;
    CHECK(rank == (here->rank == 2 ? 0 : 1));
    run_ok(here, &request);
    CHECK(value == 4);
  }
  CHECK_OK(xoe_remove_process_set(here->engine, set));
  CHECK(xoe_process_set_ranks(here->engine, set, found, 4, &count) == XOE_INVALID_ARGUMENT);
}

static void test_buffer(struct rank_context* here) {
  enum { COUNT = 100000 };
  const int64_t shape[] = {COUNT};
  xoe_buffer* buffer = NULL;
  void* data = NULL;
  CHECK_OK(xoe_buffer_allocate(here->engine, COUNT * sizeof(float), &buffer, &data));
  float* values = data;
  CHECK((uintptr_t)data % 4096 == 0 && values[0] == 0 && values[COUNT - 1] == 0);
  for (int i = 0; i < COUNT; ++i) values[i] = (float)(i % 100);
  const xoe_tensor tensor = floats(values, values, shape, 1);
  const xoe_request request = request_of(XOE_ALLREDUCE, "shared", &tensor, 1);
  run_ok(here, &request);
  for (int i = 0; i < COUNT; ++i) CHECK(values[i] == (float)(RANKS * (i % 100)));
  xoe_buffer_free(buffer);
}

/* Each rank writes its number into its own memory and adds to that of rank 0, in turn. */
static void test_peers_memory(struct rank_context* here) {
  enum { BYTES = 10000 };
  const xoe_request barrier = request_of(XOE_BARRIER, "turn", NULL, 0);
  xoe_buffer* buffer = NULL;
  xoe_buffer* peers[RANKS + 1] = {NULL};
  void* own = NULL;
  void* data[RANKS + 1] = {NULL};
  CHECK_OK(xoe_buffer_allocate(here->engine, BYTES, &buffer, &own));
  CHECK_FAILS(xoe_buffer_map_peers(here->engine, "peers", buffer, peers, data, RANKS - 1), XOE_INVALID_ARGUMENT,
              "capacity is 2, and there are 3 ranks");
  CHECK_OK(xoe_buffer_map_peers(here->engine, "peers", buffer, peers, data, RANKS + 1));
  CHECK(peers[RANKS] == NULL && data[RANKS] == NULL && data[here->rank] == own);
  ((unsigned char*)own)[BYTES - 1] = (unsigned char)(10 + here->rank);
  for (int turn = 0; turn < RANKS; ++turn) {
    if (turn == here->rank) ++*(unsigned char*)data[0];
    run_ok(here, &barrier);
  }
  for (int rank = 0; rank < RANKS; ++rank) CHECK(((unsigned char*)data[rank])[BYTES - 1] == 10 + rank);
  CHECK(*(unsigned char*)data[0] == RANKS);
  run_ok(here, &barrier);
  for (int rank = 0; rank < RANKS; ++rank) xoe_buffer_free(peers[rank]);
  xoe_buffer_free(buffer);

  /* Sizes that differ: the same error everywhere, and nothing else fails. */
  CHECK_OK(xoe_buffer_allocate(here->engine, here->rank == 1 ? 1 : BYTES, &buffer, &own));
  CHECK_FAILS(xoe_buffer_map_peers(here->engine, "peers", buffer, peers, data, RANKS), XOE_INVALID_ARGUMENT,
              "rank 1's has");
  xoe_buffer_free(buffer);
  run_ok(here, &barrier);
}

/* Ranks whose texts differ all get an error that shows them; the same text, and none, change nothing. */
static void test_detail(struct rank_context* here) {
  xoe_request request = request_of(XOE_BARRIER, "details", NULL, 0);
  request.detail = here->rank == 1 ? "names a, b" : "names b, a";
  CHECK_FAILS(xoe_run(here->engine, &request), XOE_INVALID_ARGUMENT, "names a, b");
  CHECK(strstr(xoe_last_error(), "names b, a") != NULL);
  request.detail = here->rank == 1 ? NULL : "names";
  CHECK_FAILS(xoe_run(here->engine, &request), XOE_INVALID_ARGUMENT, "names");
  request.detail = "names";
  run_ok(here, &request);
  request.detail = here->rank == 1 ? NULL : "";
  run_ok(here, &request);
}

void test_operations(struct rank_context* here) {
  test_allreduce(here);
  test_group(here);
  test_adasum(here);
  test_allgather(here);
  test_allocator(here);
  test_broadcast(here);
  test_alltoall(here);
  test_reduce_scatter(here);
  test_sparse(here);
  test_barrier_and_join(here);
  test_process_sets(here);
  test_buffer(here);
  test_peers_memory(here);
  test_detail(here);
}
