# What a rank sends as plain vectors under an object's name is not read, and neither is an object of another call.
library(xoe)
init()
me <- xoe::rank()
if (me == 0L) {
  error <- tryCatch(allgather_object("mine", name = "settings"), xoe_error = identity)
  stopifnot(inherits(error, "xoe_data_loss"), grepl("rank 1", conditionMessage(error)))
} else {
  invisible(.Call(xoe:::C_allgather, c(raw(32), serialize("forged", NULL)), "settings", NULL, TRUE))
}
# Without the flag of objects the ranks already disagree.
error <- tryCatch(if (me == 0L) allgather_object("mine", name = "settings") else allgather(raw(40), name = "settings"), xoe_error = identity)
stopifnot(inherits(error, "xoe_mismatch"))
# Rank 1 answers with what it would sign for its first call of that name; this is rank 0's second.
if (me == 0L) {
  error <- tryCatch(allgather_object("mine", name = "settings"), xoe_error = identity)
  stopifnot(inherits(error, "xoe_data_loss"))
} else {
  error <- tryCatch(allgather_object("old", name = "settings"), xoe_error = identity)
  stopifnot(inherits(error, "xoe_data_loss"))
}
stopifnot(identical(allgather_object(me), list(0L, 1L)))
cat("rank", me, "passed\n")
