/* The operations, as R calls them: R/collectives.R has looked at the arguments' classes and lengths. */
#include <string.h>

#include "xoe_r.h"

/* One tensor that is to be submitted. */
struct tensor {
  int64_t shape[XOE_R_DIMENSIONS + 2];
  xoe_tensor tensor;
  const struct xoe_encoding* encoding;
};

static SEXP wrong(const char* message) { return xoe_failure("invalid_argument", message); }

static const char* text_of(SEXP name) { return name == R_NilValue ? NULL : Rf_translateCharUTF8(STRING_ELT(name, 0)); }

/* detail: a text that ranks compare, or R_NilValue. An operation whose name is in flight, since an interrupt left it or
 * this rank has refused a call, waits for its turn. */
static void start_request(xoe_request* request, int32_t kind, SEXP name, SEXP detail) {
  xoe_request_init(request, sizeof(*request));
  request->kind = kind;
  request->name = text_of(name);
  request->detail = text_of(detail);
  request->queue_same_name = 1;
}

/* Lays the vector out for the engine. `memory`: a list, whose first three elements receive what the engine uses: the
 * vector, its encoded form, and later the result. R_NilValue, or a failure. */
static SEXP prepare(SEXP vector, const struct xoe_encoding* encoding, SEXP memory, struct tensor* to) {
  if (encoding == NULL) return wrong("vectors of this type cannot take part");
  memset(&to->tensor, 0, sizeof(to->tensor));
  to->encoding = encoding;
  const int32_t ndim = xoe_shape_of(vector, to->shape);
  if (ndim < 0) return wrong("an array may have 62 dimensions at most");
  SET_VECTOR_ELT(memory, 0, vector);
  to->tensor.shape = to->shape;
  to->tensor.ndim = ndim;
  to->tensor.dtype = encoding->dtype;
  if (encoding->encode == NULL) {
    to->tensor.in = xoe_data_of(vector);
    return R_NilValue;
  }
  SEXP encoded = Rf_allocVector(RAWSXP, XLENGTH(vector) * (R_xlen_t)encoding->bytes);
  SET_VECTOR_ELT(memory, 1, encoded);
  encoding->encode(vector, xoe_world_size(), RAW(encoded));
  to->tensor.in = RAW(encoded);
  return R_NilValue;
}

static void warn_of_integers(R_xlen_t too_large) {
  if (too_large > 0)
    Rf_warning("NAs produced by integer overflow (%.0f of them); as.double() values have larger sums",
               (double)too_large);
}

/* `elements` of the engine's memory as a vector of R's. */
static SEXP vector_of(const struct xoe_encoding* encoding, const void* data, R_xlen_t elements, R_xlen_t* too_large) {
  SEXP result = PROTECT(Rf_allocVector(encoding->result, elements));
  *too_large = 0;
  if (encoding->decode != NULL) {
    *too_large = encoding->decode(data, xoe_world_size(), result);
  } else if (elements > 0) {
    memcpy(xoe_data_to_write(result), data, (size_t)elements * encoding->bytes);
  }
  UNPROTECT(1);
  return result;
}

/* Runs a request whose result has the tensor's shape; the result has the attributes of the vector. */
static SEXP run_in_place(xoe_request* request, struct tensor* tensor, SEXP vector, SEXP memory) {
  const struct xoe_encoding* encoding = tensor->encoding;
  SEXP result = PROTECT(Rf_allocVector(encoding->result, XLENGTH(vector)));
  SET_VECTOR_ELT(memory, 2, result);
  void* encoded = encoding->encode == NULL ? NULL : RAW(VECTOR_ELT(memory, 1));
  tensor->tensor.out = encoded == NULL ? xoe_data_to_write(result) : encoded;
  request->tensors = &tensor->tensor;
  request->tensor_count = 1;
  SEXP kept = encoded == NULL ? R_NilValue : VECTOR_ELT(memory, 1);
  PROTECT(kept); /* the list loses it with the operation */
  xoe_handle* handle = NULL;
  SEXP failure = xoe_run_operation(request, memory, &handle);
  if (failure != R_NilValue) {
    UNPROTECT(2);
    return failure;
  }
  xoe_end_operation(handle);
  R_xlen_t too_large = 0;
  if (encoded != NULL) too_large = encoding->decode(encoded, xoe_world_size(), result);
  SHALLOW_DUPLICATE_ATTRIB(result, vector);
  warn_of_integers(too_large);
  UNPROTECT(2);
  return result;
}

/* The reduction of a name: XOE_SUM and so on, or -1 for Adasum, which is a kind of its own. */
static xoe_status reduction_of(SEXP op, int32_t* reduce) {
  const char* name = text_of(op);
  *reduce = -1;
  return strcmp(name, "adasum") == 0 ? XOE_OK : xoe_reduce_op_from_name(name, reduce);
}

SEXP xoe_r_allreduce(SEXP vector, SEXP op, SEXP name, SEXP detail) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  int32_t reduce;
  const xoe_status status = reduction_of(op, &reduce);
  if (status != XOE_OK) return xoe_failed_call(status);
  xoe_request request;
  start_request(&request, reduce < 0 ? XOE_ADASUM : XOE_ALLREDUCE, name, detail);
  if (reduce >= 0) request.reduce = reduce;
  const struct xoe_encoding* encoding =
      reduce < 0 && TYPEOF(vector) != REALSXP ? NULL : xoe_encoding_to_reduce(vector, reduce);
  SEXP memory = PROTECT(Rf_allocVector(VECSXP, 3));
  struct tensor tensor;
  SEXP result = prepare(vector, encoding, memory, &tensor);
  if (result == R_NilValue) result = run_in_place(&request, &tensor, vector, memory);
  UNPROTECT(1);
  return result;
}

SEXP xoe_r_broadcast(SEXP vector, SEXP root, SEXP name) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  xoe_request request;
  start_request(&request, XOE_BROADCAST, name, R_NilValue);
  request.root = Rf_asInteger(root);
  SEXP memory = PROTECT(Rf_allocVector(VECSXP, 3));
  struct tensor tensor;
  SEXP result = prepare(vector, xoe_encoding_to_move(vector), memory, &tensor);
  if (result == R_NilValue) result = run_in_place(&request, &tensor, vector, memory);
  UNPROTECT(1);
  return result;
}

/* Runs a request whose result lies in the engine's memory: `output`, until xoe_end_operation(handle). */
static SEXP run_for_output(xoe_request* request, const xoe_tensor* tensor, SEXP memory, xoe_handle** handle,
                           xoe_output* output) {
  request->tensors = tensor;
  request->tensor_count = 1;
  SEXP failure = xoe_run_operation(request, memory, handle);
  if (failure != R_NilValue) return failure;
  const xoe_status status = xoe_output_at(*handle, 0, output);
  if (status == XOE_OK) return R_NilValue;
  failure = PROTECT(xoe_failed_call(status));
  xoe_end_operation(*handle);
  UNPROTECT(1);
  return failure;
}

static R_xlen_t product_of(const int64_t* shape, int32_t ndim) {
  R_xlen_t product = 1;
  for (int32_t i = 0; i < ndim; ++i) product *= shape[i];
  return product;
}

/* Elements of the vector's type in an output of the engine: a complex number is two of its own. */
static R_xlen_t elements_of(const struct xoe_encoding* encoding, const xoe_output* output) {
  return product_of(output->shape, output->ndim) / (encoding->result == CPLXSXP ? 2 : 1);
}

/* Runs a request whose result is a vector without attributes, of a length that the engine knows. */
static SEXP run_to_vector(xoe_request* request, SEXP vector, const struct xoe_encoding* encoding) {
  SEXP memory = PROTECT(Rf_allocVector(VECSXP, 3));
  struct tensor tensor;
  xoe_handle* handle = NULL;
  xoe_output output;
  SEXP failure = prepare(vector, encoding, memory, &tensor);
  if (failure == R_NilValue) failure = run_for_output(request, &tensor.tensor, memory, &handle, &output);
  if (failure != R_NilValue) {
    UNPROTECT(1);
    return failure;
  }
  R_xlen_t too_large;
  SEXP result = PROTECT(vector_of(encoding, output.data, elements_of(encoding, &output), &too_large));
  xoe_end_operation(handle);
  warn_of_integers(too_large);
  UNPROTECT(2);
  return result;
}

SEXP xoe_r_reducescatter(SEXP vector, SEXP op, SEXP name, SEXP detail) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  int32_t reduce;
  const xoe_status status = reduction_of(op, &reduce);
  if (status != XOE_OK) return xoe_failed_call(status);
  if (reduce < 0) return wrong("adasum has no reducescatter; call allreduce()");
  xoe_request request;
  start_request(&request, XOE_REDUCE_SCATTER, name, detail);
  request.reduce = reduce;
  return run_to_vector(&request, vector, xoe_encoding_to_reduce(vector, reduce));
}

SEXP xoe_r_broadcast_bytes(SEXP bytes, SEXP root, SEXP name) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  xoe_request request;
  start_request(&request, XOE_BROADCAST_BYTES, name, R_NilValue);
  request.needs_all_ranks = 1; /* all count the objects */
  request.root = Rf_asInteger(root);
  return run_to_vector(&request, bytes, xoe_encoding_to_move(bytes));
}

/* How many rows came from each rank, as doubles: R has no integers for long vectors. */
static SEXP rows_of(xoe_handle* handle) {
  const size_t ranks = (size_t)xoe_world_size();
  int64_t* rows = (int64_t*)R_alloc(ranks, sizeof(int64_t));
  size_t count = 0;
  if (xoe_received_splits(handle, rows, ranks, &count) != XOE_OK || count != ranks) return R_NilValue;
  SEXP result = Rf_allocVector(REALSXP, (R_xlen_t)ranks);
  for (size_t i = 0; i < ranks; ++i) REAL(result)[i] = (double)rows[i];
  return result;
}

/* The ranks' blocks, one behind the other, each with its columns one behind the other, become one matrix. The engine
 * takes a matrix of R's for rows of which it does not look at the inside. */
static void bind_rows(const char* from, const double* rows, R_xlen_t columns, size_t bytes, void* bound) {
  char* to = bound;
  R_xlen_t height = 0, before = 0;
  for (int rank = 0; rank < xoe_world_size(); ++rank) height += (R_xlen_t)rows[rank];
  for (int rank = 0; rank < xoe_world_size(); ++rank) {
    const size_t part = (size_t)rows[rank] * bytes;
    for (R_xlen_t column = 0; part > 0 && column < columns; ++column, from += part)
      memcpy(to + (size_t)(column * height + before) * bytes, from, part);
    before += (R_xlen_t)rows[rank];
  }
}

/* list(values, rows) of an output whose rows came from all ranks, each of so many elements. */
static SEXP values_and_rows(xoe_handle* handle, const struct xoe_encoding* encoding, const xoe_output* output,
                            R_xlen_t columns) {
  static const char* const names[] = {"values", "rows", ""};
  SEXP pair = PROTECT(Rf_mkNamed(VECSXP, (const char**)names));
  SEXP rows = PROTECT(rows_of(handle));
  if (rows == R_NilValue) {
    UNPROTECT(2);
    return xoe_failure("internal", "the operation does not say how many rows came from each rank");
  }
  const R_xlen_t elements = elements_of(encoding, output);
  if (columns == 1 || elements == 0) {
    R_xlen_t unused;
    SET_VECTOR_ELT(pair, 0, vector_of(encoding, output->data, elements, &unused));
  } else if (encoding->decode == NULL) {
    SET_VECTOR_ELT(pair, 0, Rf_allocVector(encoding->result, elements));
    bind_rows(output->data, REAL(rows), columns, encoding->bytes, xoe_data_to_write(VECTOR_ELT(pair, 0)));
  } else {
    SEXP bound = PROTECT(Rf_allocVector(RAWSXP, elements * (R_xlen_t)encoding->bytes));
    bind_rows(output->data, REAL(rows), columns, encoding->bytes, RAW(bound));
    R_xlen_t unused;
    SET_VECTOR_ELT(pair, 0, vector_of(encoding, RAW(bound), elements, &unused));
    UNPROTECT(1);
  }
  SET_VECTOR_ELT(pair, 1, rows);
  UNPROTECT(2);
  return pair;
}

/* An operation whose result consists of rows of all ranks. */
static SEXP gather(xoe_request* request, SEXP vector) {
  SEXP memory = PROTECT(Rf_allocVector(VECSXP, 3));
  struct tensor tensor;
  xoe_handle* handle = NULL;
  xoe_output output;
  SEXP failure = prepare(vector, xoe_encoding_to_move(vector), memory, &tensor);
  if (failure == R_NilValue) failure = run_for_output(request, &tensor.tensor, memory, &handle, &output);
  if (failure != R_NilValue) {
    UNPROTECT(1);
    return failure;
  }
  const R_xlen_t columns =
      product_of(tensor.shape + 1, tensor.tensor.ndim - 1) / (tensor.encoding->result == CPLXSXP ? 2 : 1);
  SEXP result = PROTECT(values_and_rows(handle, tensor.encoding, &output, columns));
  xoe_end_operation(handle);
  UNPROTECT(2);
  return result;
}

SEXP xoe_r_allgather(SEXP vector, SEXP name, SEXP detail, SEXP needs_all_ranks) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  xoe_request request;
  start_request(&request, XOE_ALLGATHER, name, detail);
  request.needs_all_ranks = Rf_asLogical(needs_all_ranks) == TRUE;
  return gather(&request, vector);
}

SEXP xoe_r_alltoall(SEXP vector, SEXP splits, SEXP name) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  xoe_request request;
  start_request(&request, XOE_ALLTOALL, name, R_NilValue);
  const size_t count = (size_t)XLENGTH(splits);
  int64_t* rows = (int64_t*)R_alloc(count, sizeof(int64_t));
  for (size_t i = 0; i < count; ++i) rows[i] = (int64_t)REAL_RO(splits)[i];
  request.splits = rows;
  request.split_count = count;
  return gather(&request, vector);
}

SEXP xoe_r_barrier(SEXP name) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  xoe_request request;
  start_request(&request, XOE_BARRIER, name, R_NilValue);
  SEXP memory = PROTECT(Rf_allocVector(VECSXP, 0));
  xoe_handle* handle = NULL;
  failure = xoe_run_operation(&request, memory, &handle);
  if (failure == R_NilValue) xoe_end_operation(handle);
  UNPROTECT(1);
  return failure;
}

/* This rank's last part in the others' operations: the rank that joined last. */
SEXP xoe_r_join(void) {
  SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  xoe_request request;
  start_request(&request, XOE_JOIN, R_NilValue, R_NilValue);
  SEXP memory = PROTECT(Rf_allocVector(VECSXP, 0));
  xoe_handle* handle = NULL;
  failure = xoe_run_operation(&request, memory, &handle);
  UNPROTECT(1);
  if (failure != R_NilValue) return failure;
  int32_t last = 0;
  const xoe_status status = xoe_last_joined(handle, &last);
  SEXP result = PROTECT(status == XOE_OK ? Rf_ScalarInteger(last) : xoe_failed_call(status));
  xoe_end_operation(handle);
  UNPROTECT(1);
  return result;
}

/* Submits, in place of an operation that this rank does not submit, one that no other can agree with; does not wait.
 * Where it cannot be submitted, the world is broken, and the others are told by that. */
SEXP xoe_r_refuse(SEXP kind, SEXP name, SEXP detail) {
  static float nothing; /* no type of R's is a tensor of floats */
  static const int64_t kNoElements = 0;
  int32_t number;
  if (xoe_no_world() != R_NilValue || xoe_op_kind_from_name(text_of(kind), &number) != XOE_OK) return R_NilValue;
  xoe_request request;
  start_request(&request, number, name, detail);
  const xoe_tensor tensor = {.in = &nothing, .out = NULL, .shape = &kNoElements, .ndim = 1, .dtype = XOE_FLOAT32};
  if (number != XOE_BARRIER) {
    request.tensors = &tensor;
    request.tensor_count = 1;
  }
  xoe_submit(xoe_world_engine(), &request, NULL);
  return R_NilValue;
}
