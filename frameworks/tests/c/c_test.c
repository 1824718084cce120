/* The C interface from C: ranks as forked processes, each function, each kind of operation, each error. */
#define _POSIX_C_SOURCE 200809L
#include "frameworks/tests/c/c_test.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

xoe_request request_of(int32_t kind, const char* name, const xoe_tensor* tensors, size_t count) {
  xoe_request request;
  xoe_request_init(&request, sizeof(request));
  request.kind = kind;
  request.name = name;
  request.tensors = tensors;
  request.tensor_count = count;
  return request;
}

xoe_tensor floats(const float* in, float* out, const int64_t* shape, int32_t ndim) {
  xoe_tensor tensor = {in, out, shape, ndim, XOE_FLOAT32, {0, 0, 0, 0}};
  return tensor;
}

static void set_number(const char* name, int number) {
  char text[32];
  snprintf(text, sizeof(text), "%d", number);
  CHECK(setenv(name, text, 1) == 0);
}

static void set_environment(int rank) {
  char job[64];
  snprintf(job, sizeof(job), "c-test-%ld", (long)getppid());
  setenv("XOE_JOB", job, 1);
  setenv("XOE_TIMEOUT", "60", 1);
  setenv("XOE_ARENA_BYTES", "134217728", 1);
  set_number("XOE_RANK", rank);
  set_number("XOE_LOCAL_RANK", rank);
  set_number("XOE_CROSS_RANK", 0);
  set_number("XOE_SIZE", RANKS);
  set_number("XOE_LOCAL_SIZE", RANKS);
  set_number("XOE_CROSS_SIZE", 1);
}

static void count_warning(void* user, const char* line) {
  if (strstr(line, "HOROVOD_CYCLE_TIME") != NULL) ++*(int*)user;
}

/* A first engine from the environment alone, ended before the second one, with options. */
static void test_init(struct rank_context* here) {
  xoe_topology topology;
  CHECK_OK(xoe_init(NULL, &here->engine));
  CHECK_OK(xoe_topology_of(here->engine, &topology));
  CHECK(topology.rank == here->rank && topology.size == RANKS);
  CHECK(topology.local_rank == here->rank && topology.local_size == RANKS);
  CHECK(topology.cross_rank == 0 && topology.cross_size == 1);
  xoe_request barrier = request_of(XOE_BARRIER, "first", NULL, 0);
  CHECK_OK(xoe_run(here->engine, &barrier));
  xoe_shutdown(here->engine);

  static int warnings = 0; /* the engine keeps its address */
  xoe_options options;
  xoe_options_init(&options, sizeof(options));
  CHECK(options.struct_size == sizeof(options) && options.tune == -1);
  options.start_timeout = 60000000000;
  options.fusion_threshold = 1 << 20;
  options.tune = 0;
  options.tune_file = "";
  options.timeline = "";
  options.metrics_port = 0;
  options.warn = count_warning;
  options.warn_user = &warnings;
  setenv("HOROVOD_CYCLE_TIME", "1", 1);
  CHECK_OK(xoe_init(&options, &here->engine));
  CHECK(warnings == (here->rank == 0 ? 1 : 0));
}

/* Pending operations fail; handles and buffers outlive the engine. */
static void test_shutdown(struct rank_context* here) {
  const int64_t shape[] = {4};
  float values[4] = {1, 2, 3, 4};
  const xoe_tensor tensor = floats(values, values, shape, 1);
  const xoe_request never = request_of(XOE_ALLREDUCE, "never", &tensor, 1);
  const xoe_request barrier = request_of(XOE_BARRIER, "last", NULL, 0);
  xoe_handle* handle = NULL;
  xoe_buffer* buffer = NULL;
  void* data = NULL;
  CHECK_OK(xoe_buffer_allocate(here->engine, 4096, &buffer, &data));
  if (here->rank == 0) CHECK_OK(xoe_submit(here->engine, &never, &handle));
  CHECK_OK(xoe_run(here->engine, &barrier));
  xoe_shutdown(here->engine);
  if (here->rank == 0) {
    CHECK(xoe_wait(handle) == XOE_UNAVAILABLE);
    CHECK(strlen(xoe_handle_error(handle)) > 0);
    xoe_release(handle);
  }
  memset(data, 1, 4096);
  xoe_buffer_free(buffer);
}

static int run_rank(int rank, const int* to_others) {
  struct rank_context here = {NULL, rank, {to_others[0], to_others[1]}};
  set_environment(rank);
  test_init(&here);
  test_arguments(&here);
  test_operations(&here);
  test_handles(&here);
  test_buckets(&here);
  test_shard_sums(&here);
  test_data_of_ranks(&here);
  test_shutdown(&here);
  return 0;
}

int main(void) {
  int to_others[2];
  pid_t ranks[RANKS];
  int failed = 0;
  test_vocabulary();
  test_optimizer_steps();
  test_stats();
  test_arguments_without_engine();
  CHECK(pipe(to_others) == 0);
  fflush(NULL);
  for (int rank = 0; rank < RANKS; ++rank) {
    ranks[rank] = fork();
    CHECK(ranks[rank] >= 0);
    if (ranks[rank] == 0) exit(run_rank(rank, to_others));
  }
  for (int rank = 0; rank < RANKS; ++rank) {
    int status = 0;
    waitpid(ranks[rank], &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      fprintf(stderr, "rank %d ended with wait status %d\n", rank, status);
      failed = 1;
    }
  }
  return failed;
}
