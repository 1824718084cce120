# What collectives take. Each check stops as an error of the function that the user called.

TYPES <- c("double", "integer", "logical", "complex", "raw")

# A vector, matrix or array without a class: a class may give the numbers another meaning, as factors and integer64 do.
check_vector <- function(x) {
  if (isS4(x) || is.object(x)) {
    refuse("x is of class ", paste(dQuote(class(x), FALSE), collapse = ", "),
           "; pass numbers without a class (unclass(x), as.matrix(x)), or the whole to allgather_object() or broadcast_object()")
  }
  if (!(typeof(x) %in% TYPES)) {
    refuse("x is of type ", dQuote(typeof(x), FALSE), "; this takes ", paste(TYPES, collapse = ", "),
           "; allgather_object() and broadcast_object() take all values of R")
  }
}

OPS <- c(mean = "average", prod = "product")

# The name of the reduction as Xoe has it, for x.
check_op <- function(op, x) {
  if (!is.character(op) || length(op) != 1L || is.na(op)) refuse("op must be one string, as \"sum\"")
  if (op %in% names(OPS)) op <- OPS[[op]]
  takes <- switch(typeof(x), raw = character(), complex = c("sum", "average"), double = op, setdiff(op, "adasum"))
  if (!(op %in% takes)) {
    refuse("op ", dQuote(op, FALSE), " does not reduce x, which is ", typeof(x),
           if (is.raw(x)) "; bytes have no sum: as.integer(x) has")
  }
  op
}

check_name <- function(name) {
  if (is.null(name)) return(NULL)
  if (!is.character(name) || length(name) != 1L || is.na(name) || !nzchar(name)) {
    refuse("name must be NULL, or one string that is not empty")
  }
  enc2utf8(name)
}

check_root <- function(root) {
  if (!is.numeric(root) || length(root) != 1L || is.na(root) || root != trunc(root) || root < 0 || root > 2^31 - 1) {
    refuse("root must be the number of a rank, from 0")
  }
  as.integer(root)
}
