/* Senseless arguments: each is answered with a text and changes nothing. */
#define _POSIX_C_SOURCE 200809L
#include "frameworks/tests/c/c_test.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define INVALID(call, words) CHECK_FAILS(call, XOE_INVALID_ARGUMENT, words)

static void test_null_engine(void) {
  xoe_topology topology;
  xoe_handle* handle = NULL;
  xoe_buffer* buffer = NULL;
  void* data = NULL;
  char* text = NULL;
  xoe_messages* messages = NULL;
  xoe_message* message = NULL;
  int32_t number = 0;
  size_t count = 0;
  const xoe_request request = request_of(XOE_BARRIER, "x", NULL, 0);
  INVALID(xoe_init(NULL, NULL), "engine is null");
  INVALID(xoe_close(NULL), "engine is null");
  INVALID(xoe_topology_of(NULL, &topology), "engine is null");
  INVALID(xoe_add_process_set(NULL, &number, 1, &number), "engine is null");
  INVALID(xoe_remove_process_set(NULL, 1), "engine is null");
  INVALID(xoe_process_sets(NULL, &number, 1, &count), "engine is null");
  INVALID(xoe_process_set_ranks(NULL, 0, &number, 1, &count), "engine is null");
  INVALID(xoe_process_set_rank(NULL, 0, &number), "engine is null");
  INVALID(xoe_submit(NULL, &request, &handle), "engine is null");
  INVALID(xoe_run(NULL, &request), "engine is null");
  INVALID(xoe_buffer_allocate(NULL, 1, &buffer, &data), "engine is null");
  INVALID(xoe_buffer_map_peers(NULL, "x", NULL, &buffer, &data, 1), "engine is null");
  INVALID(xoe_timeline_start(NULL, "x"), "engine is null");
  INVALID(xoe_timeline_stop(NULL), "engine is null");
  INVALID(xoe_timeline_mark(NULL, "compute", "x", 0, 1), "engine is null");
  INVALID(xoe_note_step(NULL), "engine is null");
  INVALID(xoe_metrics(NULL, &text), "engine is null");
  INVALID(xoe_messages_open(NULL, "x", 0, &messages), "engine is null");
  INVALID(xoe_message_send(NULL, 0, 0, "x", 1, 0, &message), "messages is null");
  INVALID(xoe_message_receive(NULL, 0, 0, &number, 1, 0, &message), "messages is null");
}

static void test_null_handle(void) {
  xoe_output output;
  int32_t number = 0;
  int64_t rows = 0;
  size_t count = 0;
  INVALID(xoe_poll(NULL, &number), "handle is null");
  INVALID(xoe_wait(NULL), "handle is null");
  INVALID(xoe_wait_for(NULL, 1), "handle is null");
  INVALID(xoe_wait_in_stream(NULL, NULL, 1), "handle is null");
  INVALID(xoe_output_count(NULL, &count), "handle is null");
  INVALID(xoe_output_at(NULL, 0, &output), "handle is null");
  INVALID(xoe_received_splits(NULL, &rows, 1, &count), "handle is null");
  INVALID(xoe_last_joined(NULL, &number), "handle is null");
  INVALID(xoe_message_wait(NULL, 0, &number), "message is null");
  INVALID(xoe_message_peer(NULL, &number), "message is null");
  CHECK(strcmp(xoe_handle_error(NULL), "") == 0);
  xoe_message_free(NULL);
  xoe_messages_close(NULL);
  xoe_release(NULL);
  xoe_shutdown(NULL);
  xoe_buffer_free(NULL);
  xoe_text_free(NULL);
  xoe_request_init(NULL, sizeof(xoe_request));
  xoe_options_init(NULL, sizeof(xoe_options));
}

static void test_options(void) {
  xoe_engine* engine = NULL;
  xoe_options options;
  xoe_options_init(&options, sizeof(options));
  options.struct_size = 8;
  INVALID(xoe_init(&options, &engine), "options: struct_size is 8");
  xoe_options_init(&options, sizeof(options));
  options.in_flight = 9;
  INVALID(xoe_init(&options, &engine), "in_flight is 9, must be 1 to 8");
  xoe_options_init(&options, sizeof(options));
  options.stall_limit = -2;
  INVALID(xoe_init(&options, &engine), "stall_limit is -2");
  xoe_options_init(&options, sizeof(options));
  options.start_timeout = 0;
  INVALID(xoe_init(&options, &engine), "start_timeout is 0");
  xoe_options_init(&options, sizeof(options));
  options.metrics_port = 65536;
  INVALID(xoe_init(&options, &engine), "metrics_port is 65536");
  setenv("XOE_TUNE", "perhaps", 1);
  INVALID(xoe_init(NULL, &engine), "XOE_TUNE=perhaps");
  unsetenv("XOE_TUNE");
  CHECK(engine == NULL);
}

void test_arguments_without_engine(void) {
  test_null_engine();
  test_null_handle();
  test_options();
}

static void test_request_fields(struct rank_context* here) {
  const int64_t shape[] = {2};
  float values[2] = {1, 2};
  xoe_handle* handle = NULL;
  xoe_tensor tensor = floats(values, values, shape, 1);
  xoe_request request = request_of(XOE_ALLREDUCE, "bad", &tensor, 1);
  INVALID(xoe_submit(here->engine, NULL, &handle), "request is null");
  request.kind = XOE_JOIN + 1;
  INVALID(xoe_submit(here->engine, &request, &handle), "kind is 10, must be 0 to 9");
  request.kind = XOE_ALLREDUCE;
  request.reduce = -1;
  INVALID(xoe_run(here->engine, &request), "reduce is -1");
  request.reduce = XOE_SUM;
  request.compression = 99;
  INVALID(xoe_run(here->engine, &request), "compression is 99");
  request.compression = XOE_COMPRESSION_NONE;
  request.process_set = 4711;
  INVALID(xoe_submit(here->engine, &request, &handle), "4711");
  request.process_set = XOE_WORLD_SET;
  request.tensors = NULL;
  INVALID(xoe_submit(here->engine, &request, &handle), "tensors is null");
  request.tensors = &tensor;
  request.split_count = 2;
  INVALID(xoe_submit(here->engine, &request, &handle), "splits is null");
  request.split_count = 0;
  tensor.dtype = XOE_BOOL + 1;
  INVALID(xoe_submit(here->engine, &request, &handle), "tensor 0: dtype is 10");
  tensor.dtype = XOE_FLOAT32;
  tensor.ndim = -1;
  INVALID(xoe_submit(here->engine, &request, &handle), "tensor 0: ndim is -1");
  tensor.ndim = 1;
  tensor.shape = NULL;
  INVALID(xoe_submit(here->engine, &request, &handle), "tensor 0: shape is null");
  tensor.shape = shape;
  request.gpu = 2;
  INVALID(xoe_submit(here->engine, &request, &handle), "gpu is 2");
  request.gpu = 1; /* this test runs with XOE_GPU=host */
  CHECK_FAILS(xoe_submit(here->engine, &request, &handle), XOE_UNSUPPORTED, "GPU memory is not taken: XOE_GPU=host");
  CHECK_FAILS(xoe_takes_gpu_memory(here->engine), XOE_UNSUPPORTED, "XOE_GPU=host");
  INVALID(xoe_takes_gpu_memory(NULL), "engine is null");
  int32_t change = -1;
  CHECK_OK(xoe_world_change(here->engine, &change));
  CHECK(change == XOE_WORLD_FIXED);
  INVALID(xoe_world_change(here->engine, NULL), "change is null");
  CHECK_OK(xoe_world_formed(here->engine));
  INVALID(xoe_world_formed(NULL), "engine is null");
  unsigned char key[XOE_KEY_BYTES];
  CHECK_OK(xoe_key(here->engine, key));
  INVALID(xoe_key(NULL, key), "engine is null");
  INVALID(xoe_key(here->engine, NULL), "key is null");
  request.gpu = 0;
  tensor.reserved[3] = 1;
  CHECK_FAILS(xoe_submit(here->engine, &request, &handle), XOE_UNSUPPORTED, "tensor 0: its reserved fields");
  CHECK(handle == NULL);
}

/* A program with a newer header: fields behind those that this library knows. */
static void test_newer_struct(struct rank_context* here) {
  struct {
    xoe_request known;
    int64_t newer;
  } request;
  xoe_request_init(&request.known, sizeof(request));
  CHECK(request.known.struct_size == sizeof(request) && request.newer == 0);
  request.known.kind = XOE_BARRIER;
  request.known.name = "newer";
  CHECK_OK(xoe_run(here->engine, &request.known));
  request.newer = 1;
  CHECK_FAILS(xoe_run(here->engine, &request.known), XOE_UNSUPPORTED, "this version of Xoe does not know");
  request.known.struct_size = 4;
  INVALID(xoe_run(here->engine, &request.known), "struct_size is 4");
  request.known.struct_size = (size_t)-1;
  INVALID(xoe_run(here->engine, &request.known), "struct_size");
}

static void test_other_arguments(struct rank_context* here) {
  const int32_t ranks[] = {0, RANKS};
  xoe_buffer* buffer = NULL;
  void* data = NULL;
  int32_t number = 77;
  size_t count = 0;
  INVALID(xoe_topology_of(here->engine, NULL), "topology is null");
  INVALID(xoe_add_process_set(here->engine, ranks, 1, NULL), "set is null");
  INVALID(xoe_add_process_set(here->engine, NULL, 1, &number), "ranks is null");
  CHECK(xoe_add_process_set(here->engine, ranks, 2, &number) == XOE_INVALID_ARGUMENT);
  CHECK(xoe_remove_process_set(here->engine, XOE_WORLD_SET) == XOE_INVALID_ARGUMENT);
  INVALID(xoe_process_sets(here->engine, NULL, 1, &count), "the array is null");
  INVALID(xoe_process_sets(here->engine, NULL, 0, NULL), "count is null");
  CHECK(xoe_process_set_ranks(here->engine, 4711, &number, 1, &count) == XOE_INVALID_ARGUMENT);
  CHECK(xoe_process_set_rank(here->engine, 4711, &number) == XOE_INVALID_ARGUMENT);
  INVALID(xoe_process_set_rank(here->engine, 0, NULL), "rank is null");
  INVALID(xoe_buffer_allocate(here->engine, 1, NULL, &data), "buffer is null");
  INVALID(xoe_buffer_allocate(here->engine, 1, &buffer, NULL), "data is null");
  CHECK(xoe_buffer_allocate(here->engine, (size_t)1 << 50, &buffer, &data) == XOE_RESOURCE_EXHAUSTED);
  INVALID(xoe_buffer_map_peers(here->engine, "x", NULL, &buffer, &data, RANKS), "buffer is null");
  INVALID(xoe_timeline_start(here->engine, NULL), "path is null");
  CHECK(xoe_timeline_start(here->engine, "/dev/null/trace.json") == XOE_UNAVAILABLE);
  INVALID(xoe_timeline_mark(here->engine, NULL, "x", 0, 1), "lane is null");
  INVALID(xoe_timeline_mark(here->engine, "compute", NULL, 0, 1), "name is null");
  INVALID(xoe_timeline_mark(here->engine, "compute", "x", 1, 0), "ends before it starts");
  INVALID(xoe_metrics(here->engine, NULL), "text is null");
  CHECK(number == 77 && buffer == NULL && data == NULL);
}

static void test_message_arguments(struct rank_context* here) {
  xoe_messages* messages = NULL;
  xoe_message* message = NULL;
  int32_t number = 77;
  char byte = 1;
  INVALID(xoe_messages_open(here->engine, NULL, 0, &messages), "name is null");
  INVALID(xoe_messages_open(here->engine, "bad", 2, &messages), "progress_thread is 2");
  INVALID(xoe_messages_open(here->engine, "bad", 0, NULL), "messages is null");
  CHECK_OK(xoe_messages_open(here->engine, "messages", 0, &messages));
  INVALID(xoe_message_send(messages, RANKS, 1, &byte, 1, 0, &message), "rank");
  INVALID(xoe_message_send(messages, XOE_ANY_RANK, 1, &byte, 1, 0, &message), "rank");
  INVALID(xoe_message_receive(messages, -2, 1, &byte, 1, 0, &message), "rank");
  INVALID(xoe_message_send(messages, 0, 1, NULL, 1, 0, &message), "data is null");
  INVALID(xoe_message_receive(messages, 0, 1, &byte, 1, -1, &message), "timeout is -1");
  INVALID(xoe_message_send(messages, 0, 1, &byte, 1, 0, NULL), "message is null");
  CHECK(message == NULL);
  CHECK_OK(xoe_message_receive(messages, here->rank, 1, &byte, 1, 0, &message));
  INVALID(xoe_message_wait(message, -1, &number), "timeout is -1");
  INVALID(xoe_message_wait(message, 0, NULL), "done is null");
  INVALID(xoe_message_peer(message, NULL), "rank is null");
  CHECK_OK(xoe_message_wait(message, 0, &number));
  CHECK(number == 0);
  xoe_message_free(message);
  xoe_messages_close(messages);
}

static void test_forked(struct rank_context* here) {
  int status = 0;
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const xoe_request request = request_of(XOE_BARRIER, "forked", NULL, 0);
    _exit(xoe_run(here->engine, &request) == XOE_UNAVAILABLE ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void test_arguments(struct rank_context* here) {
  test_request_fields(here);
  test_newer_struct(here);
  test_other_arguments(here);
  test_message_arguments(here);
  test_forked(here);
}
