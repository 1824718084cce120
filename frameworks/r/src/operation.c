/* Operations: submitted, waited for in slices between which R may be interrupted, and their memory. */
#include "xoe_r.h"

static const int64_t kSlice = 100000000; /* nanoseconds between two looks for an interrupt */

/* Operations that have been submitted and not been seen to end: a list of external pointers to their handles, behind a
 * head that stands for none. Each pointer holds the R memory that the engine uses, so that an interrupt may leave a
 * wait at any time. A vector that is in a list counts one reference more, so R copies it before it changes it. */
static SEXP operations;

static double submitted_count;

SEXP xoe_r_submitted(void) { return Rf_ScalarReal(submitted_count); }

void xoe_prepare_operations(void) {
  operations = Rf_cons(R_NilValue, R_NilValue);
  R_PreserveObject(operations);
}

static xoe_handle* handle_of(SEXP node) { return (xoe_handle*)R_ExternalPtrAddr(CAR(node)); }

/* Takes the operation behind `before` off the list; the engine must be done with it. */
static void forget_behind(SEXP before) {
  SEXP node = CDR(before);
  SEXP memory = R_ExternalPtrProtected(CAR(node));
  xoe_release(handle_of(node));
  R_ClearExternalPtr(CAR(node));
  for (R_xlen_t i = 0; i < XLENGTH(memory); ++i) SET_VECTOR_ELT(memory, i, R_NilValue);
  SETCDR(before, CDR(node));
}

/* Those that interrupts left, and that have completed since. */
static void sweep(void) {
  for (SEXP before = operations; CDR(before) != R_NilValue;) {
    xoe_handle* handle = handle_of(CDR(before));
    int32_t done = 0;
    if (handle == NULL || (xoe_poll(handle, &done) == XOE_OK && done)) {
      forget_behind(before);
    } else {
      before = CDR(before);
    }
  }
}

SEXP xoe_r_pending(void) {
  if (xoe_owns_world()) sweep();
  return Rf_ScalarInteger(Rf_length(CDR(operations)));
}

void xoe_end_operation(xoe_handle* handle) {
  for (SEXP before = operations; CDR(before) != R_NilValue; before = CDR(before)) {
    if (handle_of(CDR(before)) == handle) {
      forget_behind(before);
      return;
    }
  }
}

static xoe_status wait_for(xoe_handle* handle) {
  for (;;) {
    const xoe_status status = xoe_wait_for(handle, kSlice);
    if (status != XOE_TIMEOUT) return status;
    int32_t done = 0; /* a time limit of the operation's own has the same status */
    if (xoe_poll(handle, &done) == XOE_OK && done) return xoe_wait(handle);
    R_CheckUserInterrupt();
  }
}

/* Ranks that submitted different things all get the same error, which is another one than that of a wrong call. */
static SEXP failure_of(xoe_handle* handle, xoe_status status) {
  const char* name = status == XOE_INVALID_ARGUMENT ? "mismatch" : xoe_status_name(status);
  SEXP failure = PROTECT(xoe_failure(name == NULL ? "internal" : name, xoe_handle_error(handle)));
  xoe_end_operation(handle);
  UNPROTECT(1);
  return failure;
}

SEXP xoe_run_operation(const xoe_request* request, SEXP memory, xoe_handle** handle) {
  *handle = NULL;
  sweep();
  SEXP holder = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, memory));
  SETCDR(operations, Rf_cons(holder, CDR(operations)));
  UNPROTECT(1);
  xoe_handle* submitted = NULL;
  xoe_status status = xoe_submit(xoe_world_engine(), request, &submitted);
  if (status != XOE_OK) {
    SEXP failure = PROTECT(xoe_failed_call(status));
    sweep();
    UNPROTECT(1);
    return failure;
  }
  R_SetExternalPtrAddr(holder, submitted);
  ++submitted_count;
  status = wait_for(submitted);
  if (status != XOE_OK) return failure_of(submitted, status);
  *handle = submitted;
  return R_NilValue;
}
