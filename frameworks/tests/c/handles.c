/* Waiting, callbacks, errors of operations, threads, observation. */
#define _POSIX_C_SOURCE 200809L
#include "frameworks/tests/c/c_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static const int64_t kShape[] = {4};

/* Rank 0 submits long before the others. */
static void test_waiting(struct rank_context* here) {
  float values[4] = {1, 2, 3, 4};
  char byte = 1;
  int32_t done = 1;
  size_t count = 0;
  const xoe_tensor tensor = floats(values, values, kShape, 1);
  const xoe_request request = request_of(XOE_ALLREDUCE, "late", &tensor, 1);
  xoe_handle* handle = NULL;
  if (here->rank != 0) CHECK(read(here->to_others[0], &byte, 1) == 1);
  CHECK_OK(xoe_submit(here->engine, &request, &handle));
  if (here->rank == 0) {
    CHECK_OK(xoe_poll(handle, &done));
    CHECK(done == 0);
    CHECK(xoe_wait_for(handle, 1000000) == XOE_TIMEOUT);
    CHECK_FAILS(xoe_wait_for(handle, -1), XOE_INVALID_ARGUMENT, "timeout is -1");
    /* Of host memory: as xoe_wait_for(). */
    CHECK(xoe_wait_in_stream(handle, NULL, 1000000) == XOE_TIMEOUT);
    CHECK_FAILS(xoe_wait_in_stream(handle, NULL, -1), XOE_INVALID_ARGUMENT, "timeout is -1");
    CHECK_FAILS(xoe_poll(handle, NULL), XOE_INVALID_ARGUMENT, "done is null");
    CHECK(strcmp(xoe_handle_error(handle), "") == 0);
    CHECK_FAILS(xoe_output_count(handle, &count), XOE_INVALID_ARGUMENT, "has not completed");
    CHECK_FAILS(xoe_last_joined(handle, &done), XOE_INVALID_ARGUMENT, "has not completed");
    for (int i = 1; i < RANKS; ++i) CHECK(write(here->to_others[1], &byte, 1) == 1);
  }
  CHECK_OK(xoe_wait_for(handle, 60000000000));
  CHECK_OK(xoe_wait(handle));
  CHECK_OK(xoe_poll(handle, &done));
  CHECK(done == 1 && values[3] == 4 * RANKS);
  CHECK_OK(xoe_output_count(handle, &count));
  CHECK(count == 0);
  xoe_release(handle);
}

struct calls {
  atomic_int count;
  atomic_int status;
  char message[512];
};

static void on_completion(void* user, xoe_status status, const char* message) {
  struct calls* calls = user;
  snprintf(calls->message, sizeof(calls->message), "%s", message);
  atomic_store(&calls->status, status);
  atomic_fetch_add(&calls->count, 1);
}

static void test_callbacks(struct rank_context* here) {
  float values[4] = {1, 2, 3, 4};
  static struct calls unwatched;
  struct calls calls = {0};
  const xoe_tensor tensor = floats(values, values, kShape, 1);
  xoe_request request = request_of(XOE_ALLREDUCE, "called", &tensor, 1);
  xoe_handle* handle = NULL;
  atomic_init(&calls.status, -1);
  request.callback = on_completion;
  request.callback_user = &calls;
  CHECK_OK(xoe_submit(here->engine, &request, &handle));
  CHECK_OK(xoe_wait(handle));
  CHECK(atomic_load(&calls.count) == 1 && atomic_load(&calls.status) == XOE_OK && calls.message[0] == '\0');
  xoe_release(handle);

  request.name = "no waiter";
  request.callback_user = &unwatched;
  CHECK_OK(xoe_submit(here->engine, &request, NULL));
  for (int i = 0; i < 60000 && atomic_load(&unwatched.count) == 0; ++i) {
    const struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
  }
  CHECK(atomic_load(&unwatched.count) == 1 && values[0] == RANKS * RANKS);
}

/* Shapes differ: an error on every rank, and the engine goes on. */
static void test_mismatch(struct rank_context* here) {
  const int64_t shape[] = {here->rank == 1 ? 3 : 4};
  float values[4] = {1, 2, 3, 4};
  struct calls calls = {0};
  const xoe_tensor tensor = floats(values, values, shape, 1);
  xoe_request request = request_of(XOE_ALLREDUCE, "unlike", &tensor, 1);
  xoe_handle* handle = NULL;
  request.callback = on_completion;
  request.callback_user = &calls;
  CHECK_OK(xoe_submit(here->engine, &request, &handle));
  CHECK_FAILS(xoe_wait(handle), XOE_INVALID_ARGUMENT, "unlike");
  const char* why = xoe_handle_error(handle);
  CHECK(strcmp(why, xoe_last_error()) == 0 && strcmp(why, calls.message) == 0);
  CHECK(atomic_load(&calls.count) == 1 && atomic_load(&calls.status) == XOE_INVALID_ARGUMENT);
  CHECK(xoe_handle_error(handle) == why);
  CHECK(xoe_wait(handle) == XOE_INVALID_ARGUMENT);
  xoe_release(handle);
}

static void test_names_of_operations(struct rank_context* here) {
  static char name[1026];
  const xoe_request request = request_of(XOE_BARRIER, name, NULL, 0);
  xoe_handle* handle = NULL;
  memset(name, 'n', 1025);
  CHECK(xoe_submit(here->engine, &request, &handle) == XOE_INVALID_ARGUMENT);
  CHECK(handle == NULL);
  name[1024] = '\0';
  CHECK_OK(xoe_run(here->engine, &request));
}

static void test_release_before_completion(struct rank_context* here) {
  const xoe_request request = request_of(XOE_BARRIER, "dropped", NULL, 0);
  xoe_handle* handle = NULL;
  CHECK_OK(xoe_submit(here->engine, &request, &handle));
  xoe_release(handle);
}

struct worker {
  xoe_engine* engine;
  char name[32];
  int failed;
};

static void* work(void* argument) {
  struct worker* worker = argument;
  float values[4] = {1, 1, 1, 1};
  const xoe_tensor tensor = floats(values, values, kShape, 1);
  const xoe_request request = request_of(XOE_ALLREDUCE, worker->name, &tensor, 1);
  worker->failed = strcmp(xoe_last_error(), "") != 0; /* errors of other threads are not seen */
  for (int i = 0; i < 20 && !worker->failed; ++i) {
    values[0] = 1;
    worker->failed = xoe_run(worker->engine, &request) != XOE_OK || values[0] != RANKS;
  }
  return NULL;
}

static void test_threads(struct rank_context* here) {
  enum { THREADS = 3 };
  pthread_t threads[THREADS];
  struct worker workers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    workers[i].engine = here->engine;
    snprintf(workers[i].name, sizeof(workers[i].name), "thread %d", i);
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(!workers[i].failed);
  }
}

static void test_observation(struct rank_context* here) {
  char path[64];
  char* text = NULL;
  const int64_t start = xoe_now();
  const xoe_request barrier = request_of(XOE_BARRIER, NULL, NULL, 0);
  snprintf(path, sizeof(path), "c_test.%s.trace.json", getenv("XOE_JOB"));
  CHECK(start > 0);
  CHECK_OK(xoe_timeline_mark(here->engine, "compute", "nowhere", start, start)); /* no trace: nothing happens */
  CHECK_OK(xoe_timeline_start(here->engine, path));
  CHECK_OK(xoe_timeline_mark(here->engine, "compute", "forward", start, xoe_now()));
  CHECK_OK(xoe_timeline_stop(here->engine));
  CHECK_OK(xoe_run(here->engine, &barrier));
  if (here->rank == 0) remove(path);
  CHECK_OK(xoe_note_step(here->engine));
  CHECK_OK(xoe_metrics(here->engine, &text));
  CHECK(strstr(text, "xoe_operations_total") != NULL);
  xoe_text_free(text);
}

void test_handles(struct rank_context* here) {
  test_waiting(here);
  test_callbacks(here);
  test_mismatch(here);
  test_names_of_operations(here);
  test_release_before_completion(here);
  test_threads(here);
  test_observation(here);
}
