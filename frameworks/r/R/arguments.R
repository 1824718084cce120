# What collectives take. Each check stops as an error of the function that the user called.

TYPES <- c("double", "integer", "logical", "complex", "raw")
REDUCED <- setdiff(TYPES, "raw")

quoted <- function(words) paste(dQuote(words, FALSE), collapse = ", ")

# What to do with an x that has a class.
advice_for <- function(x) {
  if (is.factor(x)) {
    return("a factor's numbers are positions among its levels; count with allreduce(unclass(table(x))), with the same levels on all ranks, or pass x to allgather_object()")
  }
  if (is.data.frame(x)) {
    numbers <- all(vapply(x, function(column) is.numeric(column) && !is.object(column), TRUE))
    return(paste0(if (numbers) "pass as.matrix(x), or x ", if (!numbers) "pass it ", "to allgather_object() or broadcast_object()"))
  }
  if (inherits(x, "table")) return("pass unclass(x), with the same levels on all ranks")
  "pass numbers without a class (unclass(x)), or x to allgather_object() or broadcast_object()"
}

# A vector, matrix or array without a class: a class may give the numbers another meaning, as factors and integer64 do.
check_vector <- function(x, types = TYPES) {
  if (isS4(x) || is.object(x)) refuse("x is of class ", quoted(class(x)), "; ", advice_for(x))
  if (!(typeof(x) %in% types)) {
    refuse("x is of type ", dQuote(typeof(x), FALSE), "; this takes ", paste(types, collapse = ", "),
           if (is.raw(x)) "; convert with as.integer(x) first"
           else "; allgather_object() and broadcast_object() take all values of R")
  }
}

OPS <- c("sum", "average", "min", "max", "product", "adasum")
OTHER_OPS <- c(mean = "average", prod = "product")

# The name of the reduction as Xoe has it, for x.
check_op <- function(op, x) {
  if (!is.character(op) || length(op) != 1L || is.na(op)) refuse("op must be one string, as \"sum\"")
  if (op %in% names(OTHER_OPS)) op <- OTHER_OPS[[op]]
  takes <- switch(typeof(x), complex = c("sum", "average"), double = OPS, setdiff(OPS, "adasum"))
  if (!(op %in% OPS)) {
    refuse("op ", dQuote(op, FALSE), " is not a reduction; there are ", quoted(OPS), ", and \"mean\" and \"prod\" for average and product")
  }
  if (!(op %in% takes)) refuse("op ", dQuote(op, FALSE), " does not reduce x, which is ", typeof(x), "; that takes ", quoted(takes))
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
  if (!is.numeric(root) || length(root) != 1L || is.na(root) || root != trunc(root) || root < 0) {
    refuse("root must be the number of a rank, from 0")
  }
  ranks <- topology("size", sys.call(sys.parent()))
  if (root >= ranks) refuse("root is ", format(root), "; the ranks are ", paste(unique(c(0, ranks - 1)), collapse = " to "))
  as.integer(root)
}

# The labels of a vector, matrix or array as a text that ranks compare; NULL where it has none. `labels`: vectors of
# strings, or NULL.
names_text <- function(x, labels = if (is.null(dim(x))) list(names(x)) else c(dimnames(x), list(names(dimnames(x))))) {
  first <- Find(length, labels)
  if (is.null(first)) return(NULL)
  shown <- enc2utf8(substr(first[seq_len(min(3L, length(first)))], 1L, 20L))
  more <- sum(lengths(labels)) - length(shown)
  paste0("names ", paste0("'", gsub("[[:cntrl:]]", " ", shown), "'", collapse = ", "), if (more > 0) paste(" and", more, "more"),
         ", checksum ", .Call(C_checksum, labels))
}
