# A call that one rank refuses, or whose arguments it cannot compute, fails on all ranks; the next calls meet each other.
library(xoe)
init()
me <- xoe::rank()
n <- size()
expect <- function(found, what) if (!isTRUE(found)) stop(what, " is wrong on rank ", me)

# Twelve calls, of which one fails on the last rank. Its value is that of the other ranks' class of error elsewhere.
loop <- function(what, call, value) {
  for (step in 1:12) {
    bad <- step == 5 && me == n - 1L
    found <- tryCatch(call(step, bad), error = identity)
    if (step != 5) {
      expect(identical(found, value(step)), paste(what, step))
    } else if (bad) {
      expect(inherits(found, "error") && !inherits(found, "xoe_mismatch"), paste(what, "own error"))
    } else {
      expect(inherits(found, "xoe_mismatch") && (n - 1L) %in% found$ranks && grepl("refused the call", conditionMessage(found)),
             paste(what, "error of the others"))
    }
  }
}
wrong_class <- function(bad, x) if (bad) factor("a") else x
unreadable <- function(bad, x) if (bad) stop("cannot read the file") else x
sums <- function(step) step * n * 1
for (broken in list(wrong_class, unreadable)) {
  loop("allreduce", function(step, bad) allreduce(broken(bad, step * 1)), sums)
  loop("allreduce with a name", function(step, bad) allreduce(broken(bad, step * 1), name = "total"), sums)
  loop("adasum", function(step, bad) allreduce(broken(bad, c(step, 0) * 1), "adasum"), function(step) c(step, 0) * 1)
  loop("reducescatter", function(step, bad) reducescatter(broken(bad, rep(step * 1, n))), sums)
  loop("broadcast", function(step, bad) broadcast(broken(bad, step * 1)), function(step) step * 1)
  loop("allgather", function(step, bad) allgather(broken(bad, step * 1)), function(step) rep(step * 1, n))
  loop("alltoall", function(step, bad) alltoall(broken(bad, rep(list(step * 1), n))), function(step) rep(list(step * 1), n))
}
loop("op", function(step, bad) allreduce(step * 1, if (bad) "median" else "sum"), sums)
loop("root", function(step, bad) broadcast(step * 1, root = if (bad) n else 0), function(step) step * 1)
loop("allgather_object", function(step, bad) allgather_object(unreadable(bad, step)), function(step) rep(list(step), n))
loop("broadcast_object", function(step, bad) broadcast_object(unreadable(bad, step), n - 1L), function(step) step)
loop("array", function(step, bad) allreduce(if (bad) array(1, rep(1, 63)) else step * 1), sums)

# An argument that itself calls, and then fails.
loop("nested", function(step, bad) allreduce({ barrier(); unreadable(bad, step * 1) }), sums)
# A jump out of an argument.
jumped <- function(step, bad) { allreduce(if (bad) return("jumped") else step); "summed" }
for (step in 1:3) {
  found <- tryCatch(jumped(step, step == 2 && me == 0), xoe_mismatch = function(error) "told")
  expect(found == if (step != 2) "summed" else if (me == 0) "jumped" else "told", "jump")
}
# All ranks refuse alike.
for (step in 1:3) expect(inherits(tryCatch(allreduce("a"), error = identity), "xoe_invalid_argument"), "all refuse")
expect(identical(allreduce(me + 1), n * (n + 1) / 2), "the last sum")
barrier()
expect(.Call(xoe:::C_pending) == 0L, "what is pending")
cat("rank", me, "passed\n")
