# Collectives of vectors, matrices and arrays.

allreduce <- function(x, op = "sum", name = NULL) {
  check_vector(x)
  op <- check_op(op, x)
  value_of(.Call(C_allreduce, x, op, check_name(name)))
}

reducescatter <- function(x, op = "sum", name = NULL) {
  check_vector(x)
  op <- check_op(op, x)
  name <- check_name(name)
  if (length(dim(x)) > 2L) refuse("x is an array of ", length(dim(x)), " dimensions; pass a vector or a matrix", call = sys.call())
  if (!is.matrix(x)) {
    return(value_of(.Call(C_reducescatter, as.vector(x), op, name)))
  }
  # Xoe cuts between rows that lie one behind the other.
  by_row <- t(x)
  dim(by_row) <- dim(x)
  mine <- value_of(.Call(C_reducescatter, by_row, op, name))
  rows <- if (ncol(x) > 0L) length(mine) / ncol(x) else 0
  matrix(mine, rows, ncol(x), byrow = TRUE, dimnames = list(NULL, colnames(x)))
}

broadcast <- function(x, root = 0, name = NULL) {
  check_vector(x)
  root <- check_root(root)
  value_of(.Call(C_broadcast, x, root, check_name(name)))
}

allgather <- function(x, name = NULL) {
  check_vector(x)
  gathered <- value_of(.Call(C_allgather, x, check_name(name)))
  all <- gathered$values
  if (length(dim(x)) >= 2L) {
    dim(all) <- c(sum(gathered$rows), dim(x)[-1L])
    if (!is.null(dimnames(x))) dimnames(all) <- c(list(NULL), dimnames(x)[-1L])
  }
  all
}

alltoall <- function(x, name = NULL) {
  ranks <- topology("size", sys.call())
  if (!is.list(x) || is.object(x) || length(x) != ranks) {
    refuse("x must be a list of one vector for each of the ", ranks, " ranks", call = sys.call())
  }
  types <- unique(vapply(x, typeof, ""))
  for (part in x) check_vector(part)
  if (length(types) > 1L) {
    refuse("the vectors of x are ", paste(types, collapse = " and "), "; they must be of one type", call = sys.call())
  }
  flat <- unlist(lapply(x, as.vector), use.names = FALSE)
  received <- value_of(.Call(C_alltoall, flat, as.double(lengths(x)), check_name(name)))
  cut_into(received$values, received$rows)
}

# A vector as a list of its parts, which are so long.
cut_into <- function(values, lengths) {
  ends <- cumsum(lengths)
  Map(function(end, length) values[seq_len(length) + (end - length)], ends, lengths)
}

barrier <- function(name = NULL) {
  value_of(.Call(C_barrier, check_name(name)))
  invisible(NULL)
}
