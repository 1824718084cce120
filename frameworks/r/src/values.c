/* R's vectors as Xoe's tensors. Each type has an element type, or a shape, that no other has, so that ranks that pass
 * different types get an error.
 *
 * R's integers have a value that means "not available", NA, the least of all; whatever is computed with it is NA, and
 * so is a sum that is too large. Xoe's integers know neither, so integers travel encoded:
 *   sum        in 64 bits, with NA as a number that no sum of others reaches
 *   max        one less each, with NA as the greatest
 *   min        as they are: NA is the least
 *   average and product   as doubles, with NA as NaN; the result is a double, as R's mean() and prod() give it */
#include <math.h>
#include <string.h>

#include "xoe_r.h"

/* ---- Logical values: moved as bytes --------------------------------------------------------------------------- */

static const int8_t kByteNA = -1;

static void encode_logical(SEXP vector, int ranks, void* encoded) {
  (void)ranks;
  const int* from = LOGICAL_RO(vector);
  int8_t* to = encoded;
  for (R_xlen_t i = 0, n = XLENGTH(vector); i < n; ++i) to[i] = from[i] == NA_LOGICAL ? kByteNA : from[i] != 0;
}

static R_xlen_t decode_logical(const void* encoded, int ranks, SEXP result) {
  (void)ranks;
  const int8_t* from = encoded;
  int* to = LOGICAL(result);
  for (R_xlen_t i = 0, n = XLENGTH(result); i < n; ++i) to[i] = from[i] == kByteNA ? NA_LOGICAL : from[i] != 0;
  return 0;
}

/* ---- Integers that are reduced. LOGICAL() and INTEGER() read the same memory. ---------------------------------- */

static const int* integers_of(SEXP vector) {
  return TYPEOF(vector) == LGLSXP ? LOGICAL_RO(vector) : INTEGER_RO(vector);
}

/* Sums of fewer than 2^15 integers stay below ranks * 2^31; one NA among them puts the sum above that, and as many as
 * there are ranks stay below 2^62. */
static int64_t sum_limit(int ranks) { return (int64_t)ranks << 31; }

static void encode_sum(SEXP vector, int ranks, void* encoded) {
  const int* from = integers_of(vector);
  int64_t* to = encoded;
  const int64_t missing = 2 * sum_limit(ranks);
  for (R_xlen_t i = 0, n = XLENGTH(vector); i < n; ++i) to[i] = from[i] == NA_INTEGER ? missing : from[i];
}

static R_xlen_t decode_sum(const void* encoded, int ranks, SEXP result) {
  const int64_t* from = encoded;
  int* to = INTEGER(result);
  const int64_t limit = sum_limit(ranks);
  R_xlen_t too_large = 0;
  for (R_xlen_t i = 0, n = XLENGTH(result); i < n; ++i) {
    const int fits = from[i] >= -INT_MAX && from[i] <= INT_MAX;
    to[i] = fits ? (int)from[i] : NA_INTEGER;
    too_large += !fits && from[i] < limit;
  }
  return too_large;
}

static void encode_max(SEXP vector, int ranks, void* encoded) {
  (void)ranks;
  const int* from = integers_of(vector);
  int32_t* to = encoded;
  for (R_xlen_t i = 0, n = XLENGTH(vector); i < n; ++i) to[i] = from[i] == NA_INTEGER ? INT32_MAX : from[i] - 1;
}

static R_xlen_t decode_max(const void* encoded, int ranks, SEXP result) {
  (void)ranks;
  const int32_t* from = encoded;
  int* to = INTEGER(result);
  for (R_xlen_t i = 0, n = XLENGTH(result); i < n; ++i) to[i] = from[i] == INT32_MAX ? NA_INTEGER : from[i] + 1;
  return 0;
}

static void encode_real(SEXP vector, int ranks, void* encoded) {
  (void)ranks;
  const int* from = integers_of(vector);
  double* to = encoded;
  for (R_xlen_t i = 0, n = XLENGTH(vector); i < n; ++i) to[i] = from[i] == NA_INTEGER ? NA_REAL : from[i];
}

static R_xlen_t decode_real(const void* encoded, int ranks, SEXP result) {
  (void)ranks;
  const double* from = encoded;
  double* to = REAL(result);
  for (R_xlen_t i = 0, n = XLENGTH(result); i < n; ++i) to[i] = isnan(from[i]) ? NA_REAL : from[i];
  return 0;
}

/* ---- Which it is ---------------------------------------------------------------------------------------------- */

static const struct xoe_encoding kDouble = {REALSXP, XOE_FLOAT64, sizeof(double), NULL, NULL};
static const struct xoe_encoding kComplex = {CPLXSXP, XOE_FLOAT64, sizeof(Rcomplex), NULL, NULL};
static const struct xoe_encoding kInteger = {INTSXP, XOE_INT32, sizeof(int32_t), NULL, NULL};
static const struct xoe_encoding kRaw = {RAWSXP, XOE_UINT8, 1, NULL, NULL};
static const struct xoe_encoding kLogical = {LGLSXP, XOE_INT8, 1, encode_logical, decode_logical};
static const struct xoe_encoding kSum = {INTSXP, XOE_INT64, sizeof(int64_t), encode_sum, decode_sum};
static const struct xoe_encoding kMax = {INTSXP, XOE_INT32, sizeof(int32_t), encode_max, decode_max};
static const struct xoe_encoding kReal = {REALSXP, XOE_FLOAT64, sizeof(double), encode_real, decode_real};

const struct xoe_encoding* xoe_encoding_to_move(SEXP vector) {
  switch (TYPEOF(vector)) {
    case REALSXP: return &kDouble;
    case CPLXSXP: return &kComplex;
    case INTSXP: return &kInteger;
    case RAWSXP: return &kRaw;
    case LGLSXP: return &kLogical;
    default: return NULL;
  }
}

static const struct xoe_encoding* encoding_of_integers(int32_t reduce) {
  switch (reduce) {
    case XOE_SUM: return xoe_world_size() < 1 << 15 ? &kSum : NULL;
    case XOE_MIN: return &kInteger;
    case XOE_MAX: return &kMax;
    case XOE_AVERAGE:
    case XOE_PRODUCT: return &kReal;
    default: return NULL;
  }
}

const struct xoe_encoding* xoe_encoding_to_reduce(SEXP vector, int32_t reduce) {
  switch (TYPEOF(vector)) {
    case REALSXP: return &kDouble;
    case CPLXSXP: return reduce == XOE_SUM || reduce == XOE_AVERAGE ? &kComplex : NULL;
    case INTSXP:
    case LGLSXP: return encoding_of_integers(reduce);
    default: return NULL;
  }
}

const void* xoe_data_of(SEXP vector) {
  switch (TYPEOF(vector)) {
    case REALSXP: return REAL_RO(vector);
    case CPLXSXP: return COMPLEX_RO(vector);
    case LGLSXP: return LOGICAL_RO(vector);
    case INTSXP: return INTEGER_RO(vector);
    default: return RAW_RO(vector);
  }
}

void* xoe_data_to_write(SEXP vector) {
  switch (TYPEOF(vector)) {
    case REALSXP: return REAL(vector);
    case CPLXSXP: return COMPLEX(vector);
    case LGLSXP: return LOGICAL(vector);
    case INTSXP: return INTEGER(vector);
    default: return RAW(vector);
  }
}

int32_t xoe_shape_of(SEXP vector, int64_t* shape) {
  SEXP dim = Rf_getAttrib(vector, R_DimSymbol);
  int32_t ndim = 1;
  shape[0] = XLENGTH(vector);
  if (TYPEOF(dim) == INTSXP) {
    ndim = LENGTH(dim);
    if (ndim > XOE_R_DIMENSIONS) return -1;
    for (int32_t i = 0; i < ndim; ++i) shape[i] = INTEGER_RO(dim)[i];
  }
  if (TYPEOF(vector) == CPLXSXP) { /* pairs of doubles: only these have three dimensions or more, and end with 1, 2 */
    shape[ndim++] = 1;
    shape[ndim++] = 2;
    return ndim;
  }
  /* The first dimension is not looked at: it may differ between ranks that gather. */
  int32_t end = ndim;
  while (end > 3 && shape[end - 1] == 1) --end;
  if (end >= 3 && shape[end - 2] == 1 && shape[end - 1] == 2) shape[ndim++] = 1;
  return ndim;
}
