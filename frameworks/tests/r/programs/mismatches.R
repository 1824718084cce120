# Ranks that call with different things all get one error that names the operation and the ranks; then the world goes on.
library(xoe)
init()
me <- xoe::rank()
caught <- function(expression) tryCatch({ expression; "no error" }, xoe_mismatch = identity)
pairs <- list(
  shape = function() allreduce(numeric(3L + me), name = "weights"),
  dimensions = function() allreduce(matrix(0, 2L + me, 3L - me), name = "weights"),
  integers = function() allreduce(if (me == 0L) 1L else 1, name = "weights"),
  op = function() allreduce(1, if (me == 0L) "sum" else "max", name = "weights"),
  minimum = function() allreduce(1L, if (me == 0L) "min" else "max", name = "weights"),
  columns = function() allgather(matrix(0, 2, 2L + me), name = "weights"),
  logical = function() broadcast(if (me == 0L) TRUE else 1L, name = "weights"),
  complex = function() allreduce(if (me == 0L) complex(real = 1) else array(1, c(1, 1, 2)), name = "weights"),
  complexrow = function() allgather(if (me == 0L) complex(3) else array(1, c(3, 1, 2)), name = "weights"),
  root = function() broadcast(1, root = me, name = "weights"),
  extent = function() allreduce(array(1, if (me == 0L) c(2, 1, 2) else c(2, 1, 2, 1)), name = "weights"),
  names = function() allreduce(if (me == 0L) c(a = 1, b = 2) else c(b = 1, a = 2), name = "weights"),
  nonames = function() allreduce(if (me == 0L) c(a = 1, b = 2) else c(1, 2), name = "weights"),
  manynames = function() allreduce(setNames(numeric(1000), c(1:999, 1000 + me)), name = "weights"),
  dimnames = function() reducescatter(matrix(0, 2, 2, dimnames = list(c("x", "y"), if (me == 0L) c("a", "b") else c("b", "a"))), name = "weights"),
  whichdim = function() allreduce(matrix(0, 2, 2, dimnames = if (me == 0L) list(c("a", "b"), NULL) else list(NULL, c("a", "b"))), name = "weights"),
  levels = function() allreduce(unclass(table(if (me == 0L) c("a", "b") else c("b", "c"))), name = "weights"),
  gathered = function() allgather(matrix(0, 1, 2, dimnames = list(NULL, if (me == 0L) c("a", "b") else c("b", "a"))), name = "weights")
)
for (pair in names(pairs)) {
  error <- caught(pairs[[pair]]())
  if (!inherits(error, "xoe_mismatch")) stop(pair, ": no error")
  said <- conditionMessage(error)
  stopifnot(grepl("weights", said), all(0:1 %in% error$ranks), error$code == "invalid_argument")
  stopifnot(grepl("the same names", said) == (pair %in% c("names", "nonames", "manynames", "dimnames", "whichdim", "levels", "gathered")))
  stopifnot(length(unique(allgather_object(said))) == 1L)
  if (me == 0L) cat(pair, ": ", said, "\n", sep = "")
}
# Where names mean nothing they may differ.
stopifnot(identical(broadcast(if (me == 0L) c(a = 1) else 5), if (me == 0L) c(a = 1) else 1))
stopifnot(identical(allgather(if (me == 0L) c(a = 1) else 5), c(1, 5)))
error <- caught(allreduce(numeric(3L + me)))
stopifnot(inherits(error, "xoe_mismatch"))
stopifnot(identical(allreduce(1), as.double(size())))
cat("rank", me, "passed\n")
