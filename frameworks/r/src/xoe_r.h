/* What the files of this folder share. Everything runs in R's thread, except for the thread in world.c that joins the
 * job.
 *
 * R leaves C by longjmp: when memory ends, when the user interrupts, when a warning is an error. So nothing here owns
 * memory that only C knows across such a call; an operation's memory belongs to the list in operation.c. */
#ifndef XOE_R_H
#define XOE_R_H

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <xoe/c.h>

/* ---- Failures ------------------------------------------------------------------------------------------------- */

/* What an entry point returns in place of a value; R/errors.R turns it into a condition. kind: the name of a status, or
 * "mismatch" or "not_initialized". */
SEXP xoe_failure(const char* kind, const char* message);
/* The failure of the call that has just returned `status`. */
SEXP xoe_failed_call(xoe_status status);

/* ---- The world ------------------------------------------------------------------------------------------------ */

/* R_NilValue, or why no operation can run: there is no world, or this process was forked from the one that has it. */
SEXP xoe_no_world(void);
xoe_engine* xoe_world_engine(void);
int xoe_world_size(void);
/* This process made the engine, and is no child forked since. */
int xoe_owns_world(void);

/* ---- Operations ----------------------------------------------------------------------------------------------- */

void xoe_prepare_operations(void);

/* Submits and waits; R's interrupts are served meanwhile. R_NilValue, or a failure.
 * memory: a list of all R memory that the request names. Where an interrupt ends the wait, the operation goes on, and
 * keeps it until it has completed.
 * handle: of a completed operation, for xoe_end_operation(); null after a failure. */
SEXP xoe_run_operation(const xoe_request* request, SEXP memory, xoe_handle** handle);
void xoe_end_operation(xoe_handle* handle);

/* ---- Values --------------------------------------------------------------------------------------------------- */

/* How vectors of a type travel. */
struct xoe_encoding {
  SEXPTYPE result;
  int32_t dtype;
  size_t bytes; /* of an element of the vector */
  /* Null: as they lie in R's memory. `ranks` is the number of ranks. */
  void (*encode)(SEXP vector, int ranks, void* encoded);
  /* Gives how many results were too large for an integer. */
  R_xlen_t (*decode)(const void* encoded, int ranks, SEXP result);
};

/* Null: vectors of this type cannot be moved, or not be reduced in this manner. */
const struct xoe_encoding* xoe_encoding_to_move(SEXP vector);
const struct xoe_encoding* xoe_encoding_to_reduce(SEXP vector, int32_t reduce);

const void* xoe_data_of(SEXP vector);
void* xoe_data_to_write(SEXP vector);

enum { XOE_R_DIMENSIONS = 62 };
/* The shape that ranks compare, of XOE_R_DIMENSIONS + 2 numbers; gives how many there are, or -1: too many. No two
 * types have a shape and a dtype in common. */
int32_t xoe_shape_of(SEXP vector, int64_t* shape);

/* ---- Signatures ----------------------------------------------------------------------------------------------- */

enum { XOE_SIGNATURE_BYTES = 32 };
/* HMAC-SHA-256 (RFC 2104, FIPS 180-4) of the text and the data that follows it. */
void xoe_sign(const unsigned char* key, const char* text, const unsigned char* data, size_t bytes,
              unsigned char* signature);

/* ---- Entry points for R --------------------------------------------------------------------------------------- */

SEXP xoe_r_init(SEXP start_timeout);
SEXP xoe_r_shutdown(void);
SEXP xoe_r_is_initialized(void);
SEXP xoe_r_topology(void);
SEXP xoe_r_version(void);
SEXP xoe_r_allreduce(SEXP vector, SEXP op, SEXP name, SEXP detail);
SEXP xoe_r_reducescatter(SEXP vector, SEXP op, SEXP name, SEXP detail);
SEXP xoe_r_broadcast(SEXP vector, SEXP root, SEXP name);
SEXP xoe_r_broadcast_bytes(SEXP bytes, SEXP root, SEXP name);
SEXP xoe_r_allgather(SEXP vector, SEXP name, SEXP detail, SEXP needs_all_ranks);
SEXP xoe_r_alltoall(SEXP vector, SEXP splits, SEXP name);
SEXP xoe_r_barrier(SEXP name);
SEXP xoe_r_join(void);
/* A refusal in place of an operation of this kind; `detail` says why. */
SEXP xoe_r_refuse(SEXP kind, SEXP name, SEXP detail);
/* How many operations this process has submitted. */
SEXP xoe_r_submitted(void);
/* The signature and the data that it is of, as one raw vector. */
SEXP xoe_r_signed(SEXP text, SEXP data);
/* The data of what xoe_r_signed() gave: `length` bytes of `messages` behind the first `before`. R_NilValue: the
 * signature is wrong. */
SEXP xoe_r_data_of_signed(SEXP text, SEXP messages, SEXP before, SEXP length);
/* A vector as a list of its parts, which are so long. */
SEXP xoe_r_cut(SEXP vector, SEXP lengths);
/* Eight digits for a list of vectors of strings. */
SEXP xoe_r_checksum(SEXP labels);
SEXP xoe_r_pending(void);

#endif
