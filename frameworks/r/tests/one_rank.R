# A world of one rank, in this process: results, types, attributes, errors.
library(xoe)
failure <- function(expression) tryCatch({ expression; NULL }, xoe_error = identity)

for (name in grep("^XOE_", names(Sys.getenv()), value = TRUE)) Sys.unsetenv(name)
stopifnot(inherits(failure(rank()), "xoe_not_initialized"), !is_initialized())
init()
init()
stopifnot(is_initialized(), rank() == 0L, size() == 1L, local_rank() == 0L, local_size() == 1L)
stopifnot(identical(rank(c(3, 1, 2)), c(3, 1, 2)))

# What one rank gives comes back, with its attributes.
m <- matrix(c(1, 2, 3, 4, 5, 6), 2, dimnames = list(NULL, c("a", "b", "c")))
for (x in list(1.5, c(a = 1, b = 2), m, 1:3, matrix(1:6, 2), array(1:24, 2:4), complex(real = 1, imaginary = -1), numeric(), integer())) {
  stopifnot(identical(allreduce(x), x), identical(broadcast(x), x))
}
for (x in list(c(TRUE, NA, FALSE), as.raw(0:255), c(1L, NA), c(1, NA), raw(), logical(), m)) {
  stopifnot(identical(broadcast(x), x), identical(allgather(x), x))
}
stopifnot(identical(allreduce(c(1L, NA, .Machine$integer.max)), c(1L, NA, .Machine$integer.max)))
for (op in c("min", "max")) {
  x <- c(-.Machine$integer.max, NA, 0L, .Machine$integer.max)
  stopifnot(identical(allreduce(x, op), x))
}
stopifnot(identical(allreduce(c(TRUE, FALSE, NA)), c(1L, 0L, NA)))
stopifnot(identical(allreduce(c(1L, NA), "mean"), c(1, NA)), identical(allreduce(2:3, "prod"), c(2, 3)))
stopifnot(identical(reducescatter(m), m), identical(alltoall(list(1:3)), list(1:3)), is.null(barrier()))
thing <- list(1, "two", factor("three"), data.frame(x = 1:2))
stopifnot(identical(allgather_object(thing), list(thing)), identical(broadcast_object(thing), thing))

# Refused, with an error that says what was wrong.
refused <- list(
  quote(allreduce(factor("a"))), quote(allreduce("a")), quote(allreduce(NULL)), quote(allreduce(list(1))), quote(allreduce(as.raw(1))),
  quote(allreduce(Sys.Date())), quote(allreduce(1i, "max")), quote(allreduce(1, "median")), quote(allreduce(1, c("sum", "min"))),
  quote(allreduce(1L, "adasum")), quote(allreduce(1, name = "")), quote(allreduce(1, name = NA_character_)), quote(broadcast(1, root = 1)),
  quote(broadcast(1, root = -1)), quote(broadcast(1, root = NA)), quote(broadcast_object(1, root = 0.5)), quote(alltoall(1)),
  quote(alltoall(list(1, 2))), quote(alltoall(list("a"))), quote(reducescatter(array(1, c(1, 1, 1)))), quote(init(start_timeout = -1)),
  quote(allreduce(methods::new("numeric_with_class", 1))), quote(allgather(quote(x))), quote(allreduce(array(1, rep(1, 63))))
)
setClass("numeric_with_class", contains = "numeric")
for (call in refused) {
  error <- failure(eval(call))
  if (!inherits(error, "xoe_invalid_argument") || error$code != "invalid_argument") stop("not refused: ", deparse(call))
  if (!identical(conditionCall(error)[[1L]], call[[1L]])) stop("another call: ", deparse(conditionCall(error)), " for ", deparse(call))
}
stopifnot(grepl("factor", conditionMessage(failure(allreduce(factor("a"))))))
said <- function(expression) conditionMessage(failure(expression))
stopifnot(grepl("\"sum\", \"average\", \"min\", \"max\", \"product\", \"adasum\"", said(allreduce(1, "median"))))
stopifnot(!grepl("raw", said(allreduce("a"))), grepl("raw", said(allgather("a"))), grepl("as.integer(x)", said(allreduce(raw(1))), fixed = TRUE))
stopifnot(!grepl("unclass(x)", said(allreduce(factor("a"))), fixed = TRUE), grepl("levels", said(allreduce(factor("a")))))
stopifnot(grepl("as.matrix", said(allreduce(data.frame(1)))), !grepl("as.matrix", said(allreduce(data.frame("a")))))
stopifnot(grepl("root is 1; the ranks are 0$", said(broadcast(1, root = 1))), grepl("matrix", said(alltoall(list(diag(2))))))
stopifnot(identical(my_part(3), 1:3), identical(my_part(0), integer()), grepl("n must be", said(my_part(-1))), identical(join(), 0L))

# A signature that is wrong: nothing is read. One that is right, with data of all lengths around a block of the hash.
for (length in c(0:200, 1e5)) {
  data <- serialize(raw(length), NULL)
  signed <- xoe:::signed(data, "text")
  stopifnot(identical(xoe:::read_signed(c(raw(3), signed, raw(5)), "text", 0L, NULL, 3, length(signed)), raw(length)))
  signed[[length(signed)]] <- xor(signed[[length(signed)]], as.raw(1))
  stopifnot(inherits(failure(xoe:::read_signed(signed, "text", 0L, NULL)), "xoe_data_loss"))
}
forged <- tryCatch(xoe:::read_signed(c(raw(32), serialize(1, NULL)), "text", 0L, NULL), error = identity)
stopifnot(inherits(forged, "xoe_data_loss"))

# A forked child is no rank.
if (.Platform$OS.type == "unix") {
  child <- parallel::mccollect(parallel::mcparallel(tryCatch(allreduce(1), error = function(e) c(class(e)[[1L]], conditionMessage(e)))))[[1L]]
  stopifnot(child[[1L]] == "xoe_unavailable", grepl("forked", child[[2L]]))
  child <- parallel::mccollect(parallel::mcparallel(c(is_initialized(), inherits(tryCatch(init(), error = identity), "xoe_unavailable"))))[[1L]]
  stopifnot(identical(child, c(FALSE, TRUE)))
}
stopifnot(identical(allreduce(5), 5), .Call(xoe:::C_pending) == 0L)

shutdown()
shutdown()
stopifnot(!is_initialized(), inherits(failure(allreduce(1)), "xoe_not_initialized"))
init()
stopifnot(identical(allreduce(2), 2))
unloadNamespace("xoe")
stopifnot(!xoe::is_initialized())
xoe::init()
stopifnot(identical(xoe::allreduce(3), 3))
