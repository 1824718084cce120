# Collectives of vectors, matrices and arrays. Each tells the other ranks when it ends before it has submitted its
# operation (tell_refusal); so all ranks count the same calls.

allreduce <- function(x, op = "sum", name = NULL) {
  before <- NULL
  on.exit(tell_refusal(if (adasum(op)) "adasum" else "allreduce", name, before))
  check_vector(x, REDUCED)
  op <- check_op(op, x)
  name <- check_name(name)
  before <- .Call(C_submitted)
  result <- .Call(C_allreduce, x, op, name, names_text(x))
  value_of(result)
}

reducescatter <- function(x, op = "sum", name = NULL) {
  before <- NULL
  on.exit(tell_refusal("reduce_scatter", name, before))
  check_vector(x, REDUCED)
  op <- check_op(op, x)
  name <- check_name(name)
  if (length(dim(x)) > 2L) refuse("x is an array of ", length(dim(x)), " dimensions; pass a vector or a matrix", call = sys.call())
  labels <- names_text(x)
  by_row <- if (is.matrix(x)) t(x) else as.vector(x) # Xoe cuts between rows that lie one behind the other
  if (is.matrix(x)) dim(by_row) <- dim(x)
  before <- .Call(C_submitted)
  result <- .Call(C_reducescatter, by_row, op, name, labels)
  mine <- value_of(result)
  if (!is.matrix(x)) return(mine)
  rows <- if (ncol(x) > 0L) length(mine) / ncol(x) else 0
  matrix(mine, rows, ncol(x), byrow = TRUE, dimnames = list(NULL, colnames(x)))
}

broadcast <- function(x, root = 0, name = NULL) {
  before <- NULL
  on.exit(tell_refusal("broadcast", name, before))
  check_vector(x)
  root <- check_root(root)
  name <- check_name(name)
  before <- .Call(C_submitted)
  result <- .Call(C_broadcast, x, root, name)
  value_of(result)
}

allgather <- function(x, name = NULL) {
  before <- NULL
  on.exit(tell_refusal("allgather", name, before))
  check_vector(x)
  name <- check_name(name)
  binds <- length(dim(x)) >= 2L
  labels <- if (binds && !is.null(dimnames(x))) names_text(x, dimnames(x)[-1L])
  before <- .Call(C_submitted)
  result <- .Call(C_allgather, x, name, labels, FALSE)
  gathered <- value_of(result)
  all <- gathered$values
  if (binds) {
    dim(all) <- c(sum(gathered$rows), dim(x)[-1L])
    if (!is.null(dimnames(x))) dimnames(all) <- c(list(NULL), dimnames(x)[-1L])
  }
  all
}

alltoall <- function(x, name = NULL) {
  before <- NULL
  on.exit(tell_refusal("alltoall", name, before))
  ranks <- topology("size", sys.call())
  if (!is.list(x) || is.object(x) || length(x) != ranks) {
    refuse("x must be a list of one vector for each of the ", ranks, " ranks", call = sys.call())
  }
  for (part in x) check_vector(part)
  types <- unique(vapply(x, typeof, ""))
  if (length(types) > 1L) {
    refuse("the vectors of x are ", paste(types, collapse = " and "), "; they must be of one type", call = sys.call())
  }
  if (any(lengths(lapply(x, dim)) > 1L)) {
    refuse("x holds a matrix or an array, whose dimensions would be lost; pass as.vector() of each", call = sys.call())
  }
  flat <- unlist(lapply(x, as.vector), use.names = FALSE)
  name <- check_name(name)
  before <- .Call(C_submitted)
  result <- .Call(C_alltoall, flat, as.double(lengths(x)), name)
  received <- value_of(result)
  .Call(C_cut, received$values, received$rows)
}

barrier <- function(name = NULL) {
  before <- NULL
  on.exit(tell_refusal("barrier", name, before))
  name <- check_name(name)
  before <- .Call(C_submitted)
  result <- .Call(C_barrier, name)
  value_of(result)
  invisible(NULL)
}

join <- function() value_of(.Call(C_join))

my_part <- function(n) {
  if (!is.numeric(n) || length(n) != 1L || is.na(n) || n < 0 || n != trunc(n) || n > .Machine$integer.max) {
    refuse("n must be a number of things, from 0", call = sys.call())
  }
  ranks <- topology("size", sys.call())
  first <- topology("rank", sys.call())
  (seq_len((n - first + ranks - 1) %/% ranks) - 1L) * ranks + first + 1L
}
