/* The world that this process belongs to: joining it, leaving it, and what a forked child may do. */
#define _GNU_SOURCE /* pthread_timedjoin_np, on_exit */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "xoe_r.h"

static struct {
  xoe_engine* engine;
  xoe_topology here;
  pid_t owner; /* 0: there has been no world */
} world;

/* xoe_init() waits for all ranks. It runs in a thread of its own, so that R can be interrupted meanwhile; the next
 * init() goes on waiting for it. */
static struct joining {
  pthread_t thread;
  int under_way;
  int64_t start_timeout;
  xoe_engine* engine;
  xoe_status status;
  char message[4096];
} joining;

SEXP xoe_failure(const char* kind, const char* message) {
  static const char* const names[] = {"kind", "message", ""};
  SEXP failure = PROTECT(Rf_mkNamed(VECSXP, (const char**)names));
  SET_VECTOR_ELT(failure, 0, Rf_mkString(kind));
  SET_VECTOR_ELT(failure, 1, Rf_ScalarString(Rf_mkCharCE(message, CE_UTF8)));
  Rf_setAttrib(failure, R_ClassSymbol, Rf_mkString("xoe_failure"));
  UNPROTECT(1);
  return failure;
}

SEXP xoe_failed_call(xoe_status status) {
  const char* name = xoe_status_name(status);
  return xoe_failure(name == NULL ? "internal" : name, xoe_last_error());
}

int xoe_owns_world(void) { return world.owner == getpid(); }

SEXP xoe_no_world(void) {
  if (world.owner != 0 && !xoe_owns_world())
    return xoe_failure("unavailable",
                       "this process was forked from a rank of Xoe's (by parallel::mclapply() or mcparallel()), and is "
                       "none itself; return the result to the parent, and call Xoe there");
  if (world.engine == NULL)
    return xoe_failure("not_initialized", "Xoe has not been initialized; call xoe::init() first");
  return R_NilValue;
}

xoe_engine* xoe_world_engine(void) { return world.engine; }
int xoe_world_size(void) { return world.here.size; }

static void* join(void* unused) {
  (void)unused;
  xoe_options options;
  xoe_options_init(&options, sizeof(options));
  if (joining.start_timeout > 0) options.start_timeout = joining.start_timeout;
  joining.status = xoe_init(&options, &joining.engine);
  if (joining.status != XOE_OK) strncpy(joining.message, xoe_last_error(), sizeof(joining.message) - 1);
  return NULL;
}

/* An exit that is no failure is a goodbye to the peers. Where R fails, the end of the process is what they see, so that
 * the launcher sees this rank end first and names it. */
static void leave_at_exit(int status, void* unused) {
  (void)unused;
  if (status == 0 && world.engine != NULL && xoe_owns_world()) xoe_shutdown(world.engine);
}

static SEXP start_to_join(int64_t start_timeout) {
  static int leaves_at_exit = 0;
  if (!leaves_at_exit) leaves_at_exit = on_exit(leave_at_exit, NULL) == 0;
  memset(&joining, 0, sizeof(joining));
  joining.start_timeout = start_timeout;
  world.owner = getpid();
  sigset_t all, before; /* signals are for R's thread */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&joining.thread, NULL, join, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error != 0) return xoe_failure("resource_exhausted", "cannot start a thread to join the job");
  joining.under_way = 1;
  return R_NilValue;
}

/* Waits for a tenth of a second. */
static int has_joined(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 100000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return pthread_timedjoin_np(joining.thread, NULL, &until) == 0;
}

SEXP xoe_r_init(SEXP start_timeout) {
  if (world.owner != 0 && !xoe_owns_world()) return xoe_no_world();
  if (world.engine != NULL) return R_NilValue;
  if (!joining.under_way) {
    const SEXP failure = start_to_join((int64_t)(Rf_asReal(start_timeout) * 1e9));
    if (failure != R_NilValue) return failure;
  }
  while (!has_joined()) R_CheckUserInterrupt();
  joining.under_way = 0;
  if (joining.status != XOE_OK) {
    const char* name = xoe_status_name(joining.status);
    return xoe_failure(name == NULL ? "internal" : name, joining.message);
  }
  const xoe_status status = xoe_topology_of(joining.engine, &world.here);
  if (status != XOE_OK) {
    xoe_shutdown(joining.engine);
    return xoe_failed_call(status);
  }
  world.engine = joining.engine;
  return R_NilValue;
}

SEXP xoe_r_shutdown(void) {
  if (world.engine != NULL && xoe_owns_world()) {
    xoe_engine* engine = world.engine;
    world.engine = NULL;
    xoe_shutdown(engine);
  }
  return R_NilValue;
}

SEXP xoe_r_is_initialized(void) { return Rf_ScalarLogical(world.engine != NULL && xoe_owns_world()); }

SEXP xoe_r_topology(void) {
  const SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  static const char* const names[] = {"rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", ""};
  const int numbers[] = {world.here.rank,       world.here.size,       world.here.local_rank,
                         world.here.local_size, world.here.cross_rank, world.here.cross_size};
  SEXP topology = PROTECT(Rf_mkNamed(INTSXP, (const char**)names));
  memcpy(INTEGER(topology), numbers, sizeof(numbers));
  UNPROTECT(1);
  return topology;
}

SEXP xoe_r_version(void) {
  if (xoe_abi_version() < XOE_ABI_VERSION)
    return xoe_failure("unsupported",
                       "the library libxoe.so.0 is older than the header that this package was compiled with; install "
                       "the package again");
  return Rf_mkString(xoe_version_string());
}
