/* Xoe for C and for everything that calls C: named tensors from any thread, agreed upon between ranks, fused, reduced.
 * What an operation means, and what ranks must agree on, is said in xoe/engine.h; this is the same without C++.
 *
 * Errors: functions that can fail return an xoe_status. Whatever is not XOE_OK leaves one line of text for this thread,
 * see xoe_last_error(). Null or senseless arguments give XOE_INVALID_ARGUMENT and change nothing. No exception leaves
 * the library, nothing exits.
 *
 * Threads: all functions may be called by any thread at any time. An object must not be given to xoe_shutdown,
 * xoe_release or xoe_buffer_free while another call still uses it, nor used afterwards; xoe_close ends such calls.
 *
 * Ownership: what a function hands out through a pointer to a pointer belongs to the caller, until the function named
 * with it takes it back. Arguments, structs and arrays are copied during the call; tensors' memory is not.
 *
 * Growing: a struct that starts with struct_size may get fields at its end. Prepare it with its xoe_..._init(), which
 * is told the size that this header gives it. A library that is older than the program's header accepts fields that it
 * does not know as long as they are 0 (XOE_UNSUPPORTED otherwise).
 *
 * Units: booleans are int32_t, 0 or 1; sizes are bytes and durations nanoseconds, unless said otherwise.
 */
#ifndef XOE_C_H
#define XOE_C_H

/* Names and forms are C's: */
/* NOLINTBEGIN(modernize-use-using,modernize-redundant-void-arg,readability-identifier-naming) */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XOE_API __attribute__((visibility("default")))

/* ---- Version -------------------------------------------------------------------------------------------------- */

/* Grows with each release that adds something. A program needs xoe_abi_version() >= the XOE_ABI_VERSION that it was
 * compiled with; the library's file name (libxoe.so.0) changes when something is taken away. */
#define XOE_ABI_VERSION 1

XOE_API int32_t xoe_abi_version(void);
XOE_API const char* xoe_version_string(void); /* "1.2.3" */

/* ---- Errors --------------------------------------------------------------------------------------------------- */

/* What the caller does next is what tells one from another. */
typedef int32_t xoe_status;
enum {
  XOE_OK = 0,
  XOE_INVALID_ARGUMENT = 1,   /* fix the call */
  XOE_UNSUPPORTED = 2,        /* choose another way */
  XOE_TIMEOUT = 3,            /* abort and re-form the group; from xoe_wait_for: wait again */
  XOE_PEER_LOST = 4,          /* abort and re-form the group */
  XOE_DATA_LOSS = 5,          /* do not retry blindly */
  XOE_RESOURCE_EXHAUSTED = 6, /* free something or ask for less */
  XOE_UNAVAILABLE = 7,        /* a file, host or program is not there, or the engine is gone */
  XOE_INTERNAL = 8            /* a bug in Xoe; please report it */
};

/* "ok", "peer_lost"; null for a number that is none of the above. Static. */
XOE_API const char* xoe_status_name(xoe_status status);

/* One line on the last call of this thread that did not give XOE_OK; "" if there was none. Never null; good until this
 * thread's next call that fails. */
XOE_API const char* xoe_last_error(void);

/* ---- Vocabulary: the numbers never change --------------------------------------------------------------------- */

/* Element types. */
enum {
  XOE_UINT8 = 0,
  XOE_INT8 = 1,
  XOE_INT16 = 2,
  XOE_INT32 = 3,
  XOE_INT64 = 4,
  XOE_FLOAT16 = 5,
  XOE_BFLOAT16 = 6,
  XOE_FLOAT32 = 7,
  XOE_FLOAT64 = 8,
  XOE_BOOL = 9
};

/* Reductions. */
enum { XOE_SUM = 0, XOE_AVERAGE = 1, XOE_MIN = 2, XOE_MAX = 3, XOE_PRODUCT = 4 };

/* Kinds of operations. */
enum {
  XOE_ALLREDUCE = 0,
  XOE_ADASUM = 1,
  XOE_SPARSE_ALLREDUCE = 2,
  XOE_ALLGATHER = 3,
  XOE_BROADCAST = 4,
  XOE_BROADCAST_BYTES = 5,
  XOE_ALLTOALL = 6,
  XOE_REDUCE_SCATTER = 7,
  XOE_BARRIER = 8,
  XOE_JOIN = 9
};

/* Compressions on the wire. */
enum {
  XOE_COMPRESSION_NONE = 0,
  XOE_COMPRESSION_FLOAT16 = 1,
  XOE_COMPRESSION_BFLOAT16 = 2,
  XOE_COMPRESSION_FLOAT8 = 3,
  XOE_COMPRESSION_TOP_K = 4,
  XOE_COMPRESSION_POWER_SGD = 5
};

/* The name of a number ("float32", "sum", "allreduce", "bfloat16"), static; null: there is no such number. */
XOE_API const char* xoe_dtype_name(int32_t dtype);
XOE_API const char* xoe_reduce_op_name(int32_t op);
XOE_API const char* xoe_op_kind_name(int32_t kind);
XOE_API const char* xoe_compression_name(int32_t compression);

/* The number of a name. XOE_INVALID_ARGUMENT lists the names that there are. */
XOE_API xoe_status xoe_dtype_from_name(const char* name, int32_t* dtype);
XOE_API xoe_status xoe_reduce_op_from_name(const char* name, int32_t* op);
XOE_API xoe_status xoe_op_kind_from_name(const char* name, int32_t* kind);
XOE_API xoe_status xoe_compression_from_name(const char* name, int32_t* compression);

/* Bytes of an element; 0: there is no such type. */
XOE_API size_t xoe_dtype_size(int32_t dtype);

/* ---- Engine --------------------------------------------------------------------------------------------------- */

typedef struct xoe_engine xoe_engine;

/* Receives a warning, one line without its end; any thread may call it. `line` is good during the call. */
typedef void (*xoe_warn)(void* user, const char* line);

/* What may be chosen; docs/reference/environment.md says what each means. -1, or null, leaves a choice to the
 * environment, or else to the default. */
typedef struct xoe_options {
  size_t struct_size;
  int64_t start_timeout; /* how long to wait for all ranks to appear; > 0 */
  int64_t fusion_threshold;
  int64_t pack_limit;
  int32_t in_flight; /* 1 to 8 */
  int32_t cache_capacity;
  int32_t tune; /* -1: 0 if one of fusion_threshold, pack_limit and in_flight is chosen here */
  int32_t progress_thread;
  int64_t stall_warning; /* 0: never */
  int64_t stall_limit;   /* 0: never */
  const char* tune_file; /* "": none, whatever the environment says; likewise below */
  const char* timeline;
  int32_t metrics_port; /* 0: none */
  int32_t tells_formed; /* 1: xoe_world_formed tells the launcher that this world has formed; 0: xoe_init does */
  xoe_warn warn;        /* null: warnings go to standard error */
  void* warn_user;
  const int32_t* ranks; /* of the job: this rank's group, in its order; null: all. Every rank is in the group that it
                           names, and the members of a group name the same */
  size_t rank_count;
} xoe_options;

/* Leaves everything to the environment. struct_size: sizeof(xoe_options). Null is ignored. */
XOE_API void xoe_options_init(xoe_options* options, size_t struct_size);

/* Joins the group that the launcher described in the environment (else: a group of one) and starts an engine.
 * Collective. `options` may be null. XOE_TIMEOUT: not all ranks appeared. A process may have several engines, one after
 * the other or at once, as long as all ranks create them in the same order. */
XOE_API xoe_status xoe_init(const xoe_options* options, xoe_engine** engine);

/* Ends the engine: what is pending fails with XOE_UNAVAILABLE here, and what peers still wait for with XOE_PEER_LOST
 * there. Handles and buffers stay good. Null is ignored. */
XOE_API void xoe_shutdown(xoe_engine* engine);

/* Ends the engine, and the calls of other threads that are in it; later ones give XOE_UNAVAILABLE. Its memory stays
 * until xoe_shutdown. Twice is once. */
XOE_API xoe_status xoe_close(xoe_engine* engine);

/* This rank has failed for a reason of its own, and will end: operations end at its peers with XOE_PEER_LOST, at once
 * and with `why` (a line, not null) in the error's text; the launcher names this rank as the cause even if others end
 * before it. For handlers of errors that end a program, where that takes its time. Operations fail here as well. If the
 * world has failed before, no one is told, and the status is that of its error. */
XOE_API xoe_status xoe_abort(xoe_engine* engine, const char* why);

/* Where this process stands. `local` counts the ranks on its host, `cross` the hosts that have a rank with the same
 * local rank. This struct does not grow. */
typedef struct xoe_topology {
  int32_t rank;
  int32_t size;
  int32_t local_rank;
  int32_t local_size;
  int32_t cross_rank;
  int32_t cross_size;
} xoe_topology;

XOE_API xoe_status xoe_topology_of(const xoe_engine* engine, xoe_topology* topology);

/* A secret of the processes that joined together, another one after each init: what they send each other can be
 * authenticated with it. On one host without a launcher's secret and without a home directory, others can compute it;
 * between hosts they never can. key: XOE_KEY_BYTES of the caller's. */
enum { XOE_KEY_BYTES = 32 };
XOE_API xoe_status xoe_key(const xoe_engine* engine, unsigned char* key);

/* What the launcher wants of this rank, where it changes the number of ranks (XOE_WORLD_FIXED: it does not). Unless it
 * is XOE_WORLD_STAY: shut the engine down after a step that all ranks agree on (what one rank is told all are told
 * soon, but not in the same step), and init again, or, for XOE_WORLD_LEAVE, end the process well. Costs two reads of
 * memory.
 */
enum { XOE_WORLD_FIXED = 0, XOE_WORLD_STAY = 1, XOE_WORLD_RE_FORM = 2, XOE_WORLD_LEAVE = 3 };
XOE_API xoe_status xoe_world_change(const xoe_engine* engine, int32_t* change);

/* With tells_formed: all ranks have what they need of the others, those that have just joined the state of the
 * training. Until then the launcher goes on without those if they fail, and never with them alone. Each rank may call
 * it, more than once; it counts at rank 0. The first world of a job is told by xoe_init. */
XOE_API xoe_status xoe_world_formed(const xoe_engine* engine);
/* The former name. */
XOE_API xoe_status xoe_world_wish(const xoe_engine* engine, int32_t* change);

/* XOE_OK: this process has a GPU (XOE_GPU), and requests may have gpu = 1. XOE_UNSUPPORTED: not so, or XOE_GPU=host;
 * xoe_last_error() says why. */
XOE_API xoe_status xoe_takes_gpu_memory(const xoe_engine* engine);

/* ---- Process sets --------------------------------------------------------------------------------------------- */

enum { XOE_WORLD_SET = 0 };

/* Collective over the world, and ordered like any operation. `ranks` are those of the world and get their set ranks by
 * it. */
XOE_API xoe_status xoe_add_process_set(xoe_engine* engine, const int32_t* ranks, size_t count, int32_t* set);
XOE_API xoe_status xoe_remove_process_set(xoe_engine* engine, int32_t set);

/* Arrays are filled as far as `capacity` goes, and *count receives how many there are; null with 0 asks for the count
 * alone. */
XOE_API xoe_status xoe_process_sets(const xoe_engine* engine, int32_t* sets, size_t capacity, size_t* count);
/* World ranks, by set rank. */
XOE_API xoe_status xoe_process_set_ranks(const xoe_engine* engine, int32_t set, int32_t* ranks, size_t capacity,
                                         size_t* count);
/* This process's rank in the set; XOE_INVALID_ARGUMENT: it is not in it. */
XOE_API xoe_status xoe_process_set_rank(const xoe_engine* engine, int32_t set, int32_t* rank);

/* ---- Operations ----------------------------------------------------------------------------------------------- */

/* A dense row-major tensor. Its memory must stay as it is, and `in` unwritten, until the operation has completed. This
 * struct does not grow. */
typedef struct xoe_tensor {
  const void* in;
  void* out;            /* == in: in place; null where the engine or the allocator provides the memory */
  const int64_t* shape; /* ndim numbers; copied at submit */
  int32_t ndim;         /* 0: a scalar */
  int32_t dtype;
  uint64_t reserved[4]; /* 0 */
} xoe_tensor;

/* Neither an allocator nor a callback may leave by an exception or longjmp; after a submit that failed, neither is
 * called. */

/* Where results of unknown size go: called once for each output, by whichever thread drives the engine. Null fails the
 * operation on this rank with XOE_RESOURCE_EXHAUSTED. */
typedef void* (*xoe_allocator)(void* user, size_t index, const int64_t* shape, int32_t ndim, int32_t dtype);

/* Called once, by whichever thread completes the operation, right before its handle turns ready. It may submit, and
 * must not wait. `message` is "" for XOE_OK, and good during the call. With progress_thread 0 it comes only
 * while this process submits, polls or waits for an operation, that one or another. */
typedef void (*xoe_callback)(void* user, xoe_status status, const char* message);

typedef struct xoe_request {
  size_t struct_size;
  const char* name; /* up to 1024 bytes; null or "": by order among the unnamed ones of this kind */
  int32_t kind;
  int32_t reduce;
  const xoe_tensor* tensors;
  size_t tensor_count;
  double prescale;
  double postscale;
  int32_t root; /* rank within the process set */
  int32_t process_set;
  const int64_t* splits; /* XOE_ALLTOALL: rows for each rank of the set; null: equal parts */
  size_t split_count;
  int32_t compression;
  int32_t error_feedback;
  double top_k_ratio;
  int32_t power_sgd_rank;
  int32_t reserved; /* 0 */
  xoe_allocator allocator;
  void* allocator_user;
  xoe_callback callback;
  void* callback_user;
  void* stream; /* with gpu: what stands in this cudaStream_t is done before tensors are read; null: the default */
  int32_t gpu;  /* the tensors are memory of this process's GPU; see xoe_takes_gpu_memory() and xoe/engine.h */
  int32_t needs_all_ranks; /* 1: fails where it would run without ranks that have joined */
  /* 1: where this rank has the name in flight, that is no error: this request follows once that one has completed. All
   * ranks submit the requests of such a name in one order. */
  int32_t queue_same_name;
  const int64_t* dense_shape; /* XOE_SPARSE_ALLREDUCE: of the whole tensor, for ranks to compare; null: unknown */
  size_t dense_shape_count;
  int64_t
      timeout; /* how long it waits for ranks that have not submitted it; then the process set fails. 0: stall_limit */
  const char* detail; /* what else the ranks must agree on; messages show it where they differ. Null or "": nothing */
} xoe_request;

/* An allreduce by sum of nothing over the world, uncompressed, scales 1. struct_size: sizeof(xoe_request). Null is
 * ignored. */
XOE_API void xoe_request_init(xoe_request* request, size_t struct_size);

/* A submitted operation. */
typedef struct xoe_handle xoe_handle;

/* Starts an operation. Returns errors of this call alone; all others complete the handle. `handle` may be null; memory
 * that the engine provides for results then lasts only until the callback has returned. Free the handle with
 * xoe_release(). */
XOE_API xoe_status xoe_submit(xoe_engine* engine, const xoe_request* request, xoe_handle** handle);
/* Submits and waits: the operation's own error if it failed. */
XOE_API xoe_status xoe_run(xoe_engine* engine, const xoe_request* request);

/* Advances the engine without blocking. *done: completed, well or not. */
XOE_API xoe_status xoe_poll(xoe_handle* handle, int32_t* done);
/* Blocks until completed; the operation's own error if it failed. */
XOE_API xoe_status xoe_wait(xoe_handle* handle);
/* XOE_TIMEOUT if it is not completed by then; the operation goes on. timeout >= 0. */
XOE_API xoe_status xoe_wait_for(xoe_handle* handle, int64_t timeout);
/* For GPU memory, with XOE_GPU_WAIT=stream and NCCL: returns once the operation's work is in the GPU's queue, and later
   work in `stream` (a cudaStream_t) waits for the result; if the operation fails after that, the next one has its
   error. In all other cases as xoe_wait_for(). Call it for each stream that uses the result. timeout >= 0. */
XOE_API xoe_status xoe_wait_in_stream(xoe_handle* handle, void* stream, int64_t timeout);
/* Why the operation failed; "" if it did not, or is not completed. Never null; good until xoe_release(). */
XOE_API const char* xoe_handle_error(xoe_handle* handle);
/* Drops the handle, completed or not; the operation goes on. Null is ignored. */
XOE_API void xoe_release(xoe_handle* handle);

/* The following need a completed operation; XOE_INVALID_ARGUMENT otherwise. */

/* A result whose memory the caller did not give. `shape`, and `data` that came from the engine, are good until
 * xoe_release(). This struct does not grow. */
typedef struct xoe_output {
  void* data;
  const int64_t* shape;
  int32_t ndim;
  int32_t dtype;
} xoe_output;

/* In the order of the tensors. */
XOE_API xoe_status xoe_output_count(xoe_handle* handle, size_t* count);
XOE_API xoe_status xoe_output_at(xoe_handle* handle, size_t index, xoe_output* output);
/* XOE_ALLTOALL: rows received from each rank of the set. XOE_ALLGATHER, XOE_SPARSE_ALLREDUCE: rows of each rank (of the
 * first tensor). Fills the array like xoe_process_sets(). */
XOE_API xoe_status xoe_received_splits(xoe_handle* handle, int64_t* rows, size_t capacity, size_t* count);
/* XOE_JOIN: the rank (of the world) that joined last. */
XOE_API xoe_status xoe_last_joined(xoe_handle* handle, int32_t* rank);

/* ---- Memory that all ranks of a host map ---------------------------------------------------------------------- */

/* Tensors in it are reduced where they stand, without a copy. */
typedef struct xoe_buffer xoe_buffer;

/* Not collective. *data: `bytes` of zeros, aligned to 4096. XOE_RESOURCE_EXHAUSTED: XOE_ARENA_BYTES are used up. */
XOE_API xoe_status xoe_buffer_allocate(xoe_engine* engine, size_t bytes, xoe_buffer** buffer, void** data);
/* Not while an operation uses it; may come after xoe_shutdown(). Null is ignored. */
XOE_API void xoe_buffer_free(xoe_buffer* buffer);

/* ---- Buckets of gradients ------------------------------------------------------------------------------------- */

/* Gradients in memory that all ranks of a host map, laid out once. One step: xoe_buckets_put() for each parameter as
 * soon as its gradient is computed, in any order and from any thread; then xoe_buckets_wait(). A bucket whose gradients
 * are all there is reduced where it stands, as one operation that is named after its first and last parameter. Results
 * are those of one operation for each gradient, bit for bit. */
typedef struct xoe_buckets xoe_buckets;

/* The gradient of a parameter: dense, its dimensions in the order of its memory. This struct does not grow. */
typedef struct xoe_parameter {
  const char* name; /* up to 1024 bytes; the same on all ranks, and no other parameter's */
  const int64_t* shape;
  int32_t ndim;
  int32_t dtype;
  uint64_t reserved[4]; /* 0 */
} xoe_parameter;

/* Collective over the request's process set. parameters: in the order in which their gradients become ready; set rank
 * 0's order counts. A parameter that not all ranks give with the same type and shape is not in the buckets; nor is any
 * where set rank 0 has XOE_BUCKET_BYTES=0. `request`: an allreduce without tensors; its name is the beginning of the
 * names of operations. bucket_bytes >= 0; 0: XOE_BUCKET_BYTES, or else the default; set rank 0's counts.
 * Where compression looks at each tensor as a whole, as XOE_COMPRESSION_TOP_K does, or keeps what it has lost, each
 * parameter has a bucket of its own. On all ranks alike: XOE_INVALID_ARGUMENT where a rank has joined,
 * XOE_RESOURCE_EXHAUSTED where one has not enough of its XOE_ARENA_BYTES left. Free the buckets with
 * xoe_buckets_free().
 */
XOE_API xoe_status xoe_buckets_create(xoe_engine* engine, const xoe_request* request, const xoe_parameter* parameters,
                                      size_t parameter_count, int64_t bucket_bytes, xoe_buckets** buckets);
/* Not while another call uses it, nor while its memory is used; operations under way keep theirs. May come after
 * xoe_shutdown(). Null is ignored. */
XOE_API void xoe_buckets_free(xoe_buckets* buckets);

XOE_API xoe_status xoe_buckets_count(const xoe_buckets* buckets, size_t* count);
/* *data: where the gradient of this parameter lies, aligned to 64, zeros at first; null: it is not in the buckets.
 * After a wait it holds the result, until the parameter's next put; the caller may write there meanwhile. */
XOE_API xoe_status xoe_buckets_slot(const xoe_buckets* buckets, size_t parameter, void** data);

/* This step's gradient of a parameter, copied to its slot unless it is there. Null: this rank did not compute it, and
 * contributes zeros. The slot must not be touched from then on until the step ends. XOE_INVALID_ARGUMENT: it is not in
 * the buckets, or the step has its gradient already. */
XOE_API xoe_status xoe_buckets_put(xoe_buckets* buckets, size_t parameter, const void* gradient);
/* In place of a put: this rank does not train the parameter. If another rank does, the step fails on all ranks, with an
 * error that names the parameter. */
XOE_API xoe_status xoe_buckets_leave_out(xoe_buckets* buckets, size_t parameter);

/* Waits for all buckets, for so long. *done: 1: the slots hold the results, and the next put begins the next step; 0:
 * not yet, wait again. An operation's error ends the step. XOE_INVALID_ARGUMENT names gradients that are not there, and
 * the step goes on. timeout >= 0. Not while another thread puts. */
XOE_API xoe_status xoe_buckets_wait(xoe_buckets* buckets, int64_t timeout, int32_t* done);
/* Gives up on the step: operations under way go on, and a put to their buckets waits for them. Not while another thread
 * puts. */
XOE_API xoe_status xoe_buckets_reset(xoe_buckets* buckets);

/* ---- Sums over logical shards --------------------------------------------------------------------------------- */

/* The sum of float32 values over the logical shards of a batch, which are numbered from 0. It is added along a fixed
 * binary tree over shards, not over ranks, so that it has the same bits for any number of ranks. A rank computes a
 * contiguous range of shards. One step: xoe_shard_sum_add() for each shard of the range, in order; then
 * xoe_shard_sum_wait(). One thread at a time. */
typedef struct xoe_shard_sum xoe_shard_sum;

/* For all ranks of the engine, which give the same arguments. name: the beginning of the names of operations, which no
 * other sum of this engine has. shards: at least as many as ranks. count: values of each shard. scale: multiplies the
 * sum. Free it with xoe_shard_sum_free(). */
XOE_API xoe_status xoe_shard_sum_create(xoe_engine* engine, const char* name, int32_t shards, size_t count,
                                        double scale, xoe_shard_sum** sum);
/* Not while another call uses it; operations under way keep its memory. May come after xoe_shutdown(). Null is
 * ignored. */
XOE_API void xoe_shard_sum_free(xoe_shard_sum* sum);

/* The shards of this rank: [*begin, *end). */
XOE_API xoe_status xoe_shard_sum_range(const xoe_shard_sum* sum, int32_t* begin, int32_t* end);

/* The values of the next shard of this rank: `pieces` arrays, as if they lay one after the other; a null array stands
 * for zeros. They are not used after the call. XOE_INVALID_ARGUMENT: it is another shard's turn, or there are not
 * `count` values. XOE_RESOURCE_EXHAUSTED: XOE_ARENA_BYTES are used up. */
XOE_API xoe_status xoe_shard_sum_add(xoe_shard_sum* sum, int32_t shard, const float* const* values,
                                     const size_t* counts, size_t pieces);

/* Collective. *result: the sum over all shards, `count` values aligned to 64, which are good until the next add; null:
 * not there within `timeout` ns, wait again. An operation's error ends the step. XOE_INVALID_ARGUMENT: a shard of this
 * rank has not been added, and the step goes on; or ranks differ in shards or count. timeout >= 0. */
XOE_API xoe_status xoe_shard_sum_wait(xoe_shard_sum* sum, int64_t timeout, float** result);
/* Gives up on the step. */
XOE_API xoe_status xoe_shard_sum_reset(xoe_shard_sum* sum);

/* ---- The process's own memory --------------------------------------------------------------------------------- */

/* Tells glibc to keep what the process frees, for its next allocations. A training frees and allocates the same large
 * tensors in each step; by default glibc returns them to the kernel, which then clears every page again. The process
 * stays as large as it once was. For the whole process; best before it allocates much. Does nothing where
 * XOE_KEEP_FREED_MEMORY is 0, or where the user has set glibc's own thresholds (MALLOC_TRIM_THRESHOLD_,
 * MALLOC_MMAP_THRESHOLD_, GLIBC_TUNABLES). XOE_INVALID_ARGUMENT: the variable is neither 0 nor 1. */
XOE_API xoe_status xoe_keep_freed_memory(void);

/* The buffers that the ranks pass, by rank, as this process sees them. Collective over the world; `name` as in a
 * request; all buffers have the same size. peers, data: `capacity` entries, one for each rank at least; peers[r] is a
 * buffer of the caller's, to be given back with xoe_buffer_free(), and data[r] its memory; both null where rank r is on
 * another host. The memory shows rank r's for as long as rank r keeps the buffer that it passed, or has died; the
 * address is good until peers[r] is freed, also after xoe_shutdown(). Ranks that write in one place order that by
 * operations: what was written before a barrier can be read after it. XOE_INVALID_ARGUMENT on all ranks: sizes differ,
 * or a buffer is not of this engine. */
XOE_API xoe_status xoe_buffer_map_peers(xoe_engine* engine, const char* name, const xoe_buffer* buffer,
                                        xoe_buffer** peers, void** data, size_t capacity);

/* ---- Messages from rank to rank ------------------------------------------------------------------------------- */

/* Through shared memory within a host, over TCP between hosts. Both ends of a connection prove that they belong to the
 * job; XOE_ENCRYPT=1 encrypts what leaves a host. Messages of one sender with one tag arrive in the order in which they
 * were sent, and meet receives in the order in which those were posted. A rank keeps what comes before the message that
 * it waits for. Any thread may use messages, but none while they are being closed. A forked child may only free them.
 */
typedef struct xoe_messages xoe_messages;
typedef struct xoe_message xoe_message;

#define XOE_ANY_RANK (-1)

/* Collective over the world; `name` as in a request. Takes up to 4 MiB of the engine's shared memory, which it keeps
 * until it is shut down. progress_thread: 1: messages move also while no thread waits for one; 0: they need not, and a
 * wait moves all. Close them with xoe_messages_close(). */
XOE_API xoe_status xoe_messages_open(xoe_engine* engine, const char* name, int32_t progress_thread,
                                     xoe_messages** messages);
/* Messages under way fail with XOE_UNAVAILABLE, at peers with XOE_PEER_LOST, except for receives from any rank; what
 * was sent whole arrives. May come after xoe_shutdown(). Null is ignored. */
XOE_API void xoe_messages_close(xoe_messages* messages);

/* Starts a message of `bytes` bytes to a rank of the world, this one too. The memory must stay as it is until the
 * message is over. timeout: nanoseconds that it may take; 0: the engine's limit (XOE_STALL_LIMIT). The first message to
 * or from a rank of another host blocks while it connects, at most for 30 s. Free it with xoe_message_free(). */
XOE_API xoe_status xoe_message_send(xoe_messages* messages, int32_t to, uint64_t tag, const void* data, size_t bytes,
                                    int64_t timeout, xoe_message** message);
/* Receives the next message with this tag of a rank, or of XOE_ANY_RANK. */
XOE_API xoe_status xoe_message_receive(xoe_messages* messages, int32_t from, uint64_t tag, void* data, size_t bytes,
                                       int64_t timeout, xoe_message** message);
/* Waits for so long (nanoseconds, >= 0). *done: 1: it has been received, or its memory is free again; 0: not yet. Every
 * error but XOE_INVALID_ARGUMENT of this call itself ends the message: XOE_PEER_LOST, XOE_TIMEOUT,
 * XOE_INVALID_ARGUMENT (it has another size), XOE_UNAVAILABLE. */
XOE_API xoe_status xoe_message_wait(xoe_message* message, int64_t timeout, int32_t* done);
/* The rank that a message came from, or goes to; XOE_ANY_RANK: not known yet. */
XOE_API xoe_status xoe_message_peer(const xoe_message* message, int32_t* rank);
/* A message that is not over is given up, as one that timed out is: a send of which bytes have left goes on from a
 * copy, any other is withdrawn; the memory of a receive is not used any more. Null is ignored. */
XOE_API void xoe_message_free(xoe_message* message);

/* ---- Steps of optimizers -------------------------------------------------------------------------------------- */

/* One pass over gradient, state and parameter, with SIMD, in the calling thread. Arithmetic is in float32, rounded to
 * nearest even, with fused multiply-add where PyTorch's kernels have it. Every NaN that is written is the positive
 * quiet one. The bits at an index depend on the inputs at that index alone: not on count, alignment or processor. */

/* What a step reads and writes. Nothing overlaps; nothing needs alignment. This struct does not grow. */
typedef struct xoe_step {
  void* parameter;
  float* master; /* 16-bit parameters: float32 copies, which are updated, then rounded into `parameter` */
  const void* const* gradients; /* one, or several that are reduced on the way, as an allreduce on one host would do */
  size_t gradient_count;        /* 1 to 1024 */
  size_t count;                 /* elements */
  int32_t dtype;                /* of the parameter: XOE_FLOAT32, XOE_FLOAT16, XOE_BFLOAT16 */
  int32_t gradient_dtype;       /* XOE_FLOAT32, or that of the parameter */
  int32_t reduce;               /* XOE_SUM or XOE_AVERAGE */
  int32_t reserved;             /* 0 */
} xoe_step;

/* torch.optim.SGD. */
typedef struct xoe_sgd {
  size_t struct_size;
  double learning_rate;
  double momentum;
  double dampening;
  double weight_decay;
  double gradient_scale; /* multiplies the gradient first */
  int32_t nesterov;
  int32_t maximize;
  int32_t first; /* the momentum is written without being read */
  int32_t reserved;
  double trust; /* multiplies gradient and decay: see xoe_lars_trust() */
} xoe_sgd;

/* Everything 0, gradient_scale and trust 1. struct_size: sizeof(xoe_sgd). Null is ignored. */
XOE_API void xoe_sgd_init(xoe_sgd* options, size_t struct_size);
/* momentum: step->count floats; null where options->momentum is 0. */
XOE_API xoe_status xoe_sgd_step(const xoe_sgd* options, const xoe_step* step, float* momentum);

/* torch.optim.Adam and AdamW. */
typedef struct xoe_adam {
  size_t struct_size;
  double learning_rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  double gradient_scale;
  int64_t step;      /* the number of this step, from 1 */
  int32_t decoupled; /* 1: AdamW */
  int32_t maximize;
} xoe_adam;

/* A first step of Adam: betas 0.9 and 0.999, epsilon 1e-8, gradient_scale 1, everything else 0. */
XOE_API void xoe_adam_init(xoe_adam* options, size_t struct_size);
/* mean, square: step->count floats each, 0 before the first step; largest: likewise for AMSGrad, else null. */
XOE_API xoe_status xoe_adam_step(const xoe_adam* options, const xoe_step* step, float* mean, float* square,
                                 float* largest);

/* Optimizers whose step depends on norms of a whole layer, for large batches. Where a layer is sharded, the norms of
 * its shards are added up. */
typedef struct xoe_norms {
  double parameter; /* sums of squares */
  double update;
} xoe_norms;

/* LARS (You, Gitman, Ginsburg 2017): these two, then xoe_sgd_step() with the trust.
 * trust: coefficient * |p| / (|g| + weight_decay * |p| + epsilon); 1 where |p| or |g| is 0. */
XOE_API xoe_status xoe_lars_norms(const xoe_sgd* options, const xoe_step* step, xoe_norms* norms);
XOE_API xoe_status xoe_lars_trust(const xoe_sgd* options, const xoe_norms* norms, double coefficient, double epsilon,
                                  double* trust);

/* LAMB (You et al. 2020), in three parts. The first updates mean and square as xoe_adam_step() does, and gives the
 * norms of parameter and update; the last one updates the parameter, and reads no gradient. options->decoupled is
 * ignored. trust: |p| / |u|; 1 where either is 0. */
XOE_API xoe_status xoe_lamb_moments(const xoe_adam* options, const xoe_step* step, float* mean, float* square,
                                    xoe_norms* norms);
XOE_API xoe_status xoe_lamb_trust(const xoe_norms* norms, double* trust);
XOE_API xoe_status xoe_lamb_apply(const xoe_adam* options, const xoe_step* step, const float* mean, const float* square,
                                  double trust);

/* ---- Quality --------------------------------------------------------------------------------------------------- */

/* An area under the ROC curve: the probability that a positive scores higher than a negative; a tie counts half. */
typedef struct xoe_auroc {
  double value;
  double variance; /* DeLong's */
  int64_t positives;
  int64_t negatives;
} xoe_auroc;

/* positive[i]: 1 where image i has the finding, else 0. influence, which may be null, receives `count` numbers: their
 * squares sum up to the variance, and the products of two scores' influences to their covariance.
 * XOE_INVALID_ARGUMENT: a score is NaN, or there are fewer than two positives or two negatives. */
XOE_API xoe_status xoe_auroc_of(const double* scores, const uint8_t* positive, size_t count, xoe_auroc* auroc,
                                double* influence);

/* ---- Observation ---------------------------------------------------------------------------------------------- */

/* Nanoseconds of the clock that marks are made with (CLOCK_MONOTONIC). */
XOE_API int64_t xoe_now(void);

/* Writes a Chrome trace from here on, in place of an older file. Collective over all ranks; rank 0's path counts; each
   of several hosts writes a file of its own. Stopping is for each rank to do when it likes. */
XOE_API xoe_status xoe_timeline_start(xoe_engine* engine, const char* path);
XOE_API xoe_status xoe_timeline_stop(xoe_engine* engine);
/* A bar of the caller's in the trace, such as "forward"; lane: "compute" or "input". Without a trace nothing happens.
 */
XOE_API xoe_status xoe_timeline_mark(xoe_engine* engine, const char* lane, const char* name, int64_t start,
                                     int64_t stop);

/* A training step of this rank has ended: counted in the metrics, and for the panel of `xoe run`. */
XOE_API xoe_status xoe_note_step(const xoe_engine* engine);

/* Prometheus text format 0.0.4, ended by a zero byte. Give it back with xoe_text_free(). */
XOE_API xoe_status xoe_metrics(const xoe_engine* engine, char** text);
/* Null is ignored. */
XOE_API void xoe_text_free(char* text);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-use-using,modernize-redundant-void-arg,readability-identifier-naming) */
#endif
