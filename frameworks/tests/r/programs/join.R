# Ranks with other numbers of batches: those that have joined contribute nothing, and then all go on together.
library(xoe)
init()
me <- xoe::rank()
n <- size()
batches <- 2 + 3 * me # the last rank has the most
for (batch in seq_len(batches)) {
  there <- sum(2 + 3 * (seq_len(n) - 1) >= batch)
  found <- allreduce(c(value = batch, rows = 1))
  stopifnot(identical(found, c(value = batch * there, rows = there * 1)))
  stopifnot(identical(allreduce(-1L - batch, "max"), -1L - batch), identical(allreduce(9, "min"), 9), identical(allreduce(c(2L, NA)), c(2L * there, NA)))
  stopifnot(identical(allreduce(1, "average"), there / n), length(allgather(1:2)) == 2L * there)
}
if (batches < 2 + 3 * (n - 1)) {
  stopifnot(identical(join(), n - 1L))
} else {
  if (n > 1L) {
    for (call in expression(broadcast(1, root = 0), allgather_object(me), broadcast_object(me, root = me), alltoall(as.list(1:n)))) {
      if (!inherits(tryCatch(eval(call), xoe_error = identity), "xoe_error")) stop("no error: ", deparse(call))
    }
  }
  stopifnot(identical(join(), n - 1L))
}
# Unnamed calls meet again, though the ranks have used other numbers of them.
stopifnot(identical(allreduce(me), sum(seq_len(n) - 1L)), identical(allgather_object(me), as.list(seq_len(n) - 1L)), identical(broadcast_object(me, root = n - 1L), n - 1L))
cat("rank", me, "passed\n")
