/* Signed objects, parts of vectors, and the checksum of names. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "xoe_r.h"

/* R_NilValue, or why there is no key. */
static SEXP key_of_world(unsigned char* key) {
  const SEXP failure = xoe_no_world();
  if (failure != R_NilValue) return failure;
  const xoe_status status = xoe_key(xoe_world_engine(), key);
  return status == XOE_OK ? R_NilValue : xoe_failed_call(status);
}

static const char* text_of(SEXP text) { return Rf_translateCharUTF8(STRING_ELT(text, 0)); }

SEXP xoe_r_signed(SEXP text, SEXP data) {
  unsigned char key[XOE_KEY_BYTES];
  const SEXP failure = key_of_world(key);
  if (failure != R_NilValue) return failure;
  const size_t bytes = (size_t)XLENGTH(data);
  SEXP message = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)bytes + XOE_SIGNATURE_BYTES));
  xoe_sign(key, text_of(text), RAW_RO(data), bytes, RAW(message));
  if (bytes > 0) memcpy(RAW(message) + XOE_SIGNATURE_BYTES, RAW_RO(data), bytes);
  UNPROTECT(1);
  return message;
}

SEXP xoe_r_data_of_signed(SEXP text, SEXP messages, SEXP before, SEXP length) {
  unsigned char key[XOE_KEY_BYTES], signature[XOE_SIGNATURE_BYTES];
  const SEXP failure = key_of_world(key);
  if (failure != R_NilValue) return failure;
  const double first = Rf_asReal(before), all = Rf_asReal(length);
  if (TYPEOF(messages) != RAWSXP || !(all >= XOE_SIGNATURE_BYTES) || first + all > (double)XLENGTH(messages))
    return R_NilValue;
  const unsigned char* message = RAW_RO(messages) + (size_t)first;
  const unsigned char* data = message + XOE_SIGNATURE_BYTES;
  const size_t bytes = (size_t)all - XOE_SIGNATURE_BYTES;
  xoe_sign(key, text_of(text), data, bytes, signature);
  unsigned char differs = 0; /* in a time that does not depend on where */
  for (int i = 0; i < XOE_SIGNATURE_BYTES; ++i) differs |= signature[i] ^ message[i];
  if (differs) return R_NilValue;
  SEXP result = Rf_allocVector(RAWSXP, (R_xlen_t)bytes);
  if (bytes > 0) memcpy(RAW(result), data, bytes);
  return result;
}

static size_t element_bytes(SEXP vector) {
  switch (TYPEOF(vector)) {
    case REALSXP: return sizeof(double);
    case CPLXSXP: return sizeof(Rcomplex);
    case LGLSXP:
    case INTSXP: return sizeof(int);
    default: return 1;
  }
}

SEXP xoe_r_cut(SEXP vector, SEXP lengths) {
  const R_xlen_t parts = XLENGTH(lengths);
  const size_t bytes = element_bytes(vector);
  const char* from = xoe_data_of(vector);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, parts));
  for (R_xlen_t i = 0; i < parts; ++i) {
    const R_xlen_t length = (R_xlen_t)REAL_RO(lengths)[i];
    SEXP part = Rf_allocVector(TYPEOF(vector), length);
    SET_VECTOR_ELT(list, i, part);
    if (length > 0) memcpy(xoe_data_to_write(part), from, (size_t)length * bytes);
    from += (size_t)length * bytes;
  }
  UNPROTECT(1);
  return list;
}

/* FNV-1a, of 64 bits. */
static uint64_t mixed(uint64_t sum, const void* data, size_t bytes) {
  const unsigned char* from = data;
  for (size_t i = 0; i < bytes; ++i) sum = (sum ^ from[i]) * 0x100000001b3u;
  return sum;
}

SEXP xoe_r_checksum(SEXP labels) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (R_xlen_t i = 0; i < XLENGTH(labels); ++i) {
    SEXP strings = VECTOR_ELT(labels, i);
    const int64_t count = TYPEOF(strings) == STRSXP ? (int64_t)XLENGTH(strings) : -1;
    sum = mixed(sum, &count, sizeof(count));
    for (int64_t k = 0; k < count; ++k) {
      const void* mark = vmaxget(); /* of what translation allocates */
      const char* text = Rf_translateCharUTF8(STRING_ELT(strings, (R_xlen_t)k));
      sum = mixed(sum, text, strlen(text) + 1);
      vmaxset(mark);
    }
  }
  char digits[17];
  snprintf(digits, sizeof(digits), "%08x", (unsigned)(sum ^ sum >> 32));
  return Rf_mkString(digits);
}
