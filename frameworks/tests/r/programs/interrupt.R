# Rank 0 is interrupted in a wait. The operation goes on with the values that it had, while R changes its own.
library(xoe)
init()
me <- xoe::rank()
ready <- file.path(commandArgs(TRUE)[[1L]], "ready")

if (me == 0L) {
  x <- c(1, 2, 3)
  repeat {
    # An interrupt that comes before the submit leaves nothing pending; then once more.
    interrupt <- sprintf("(sleep 0.5; kill -INT %d) >/dev/null 2>&1 &", Sys.getpid())
    ended <- tryCatch({
      system(interrupt)
      allreduce(x, name = "first")
      "completed"
    }, interrupt = function(condition) "interrupted")
    stopifnot(ended == "interrupted")
    if (.Call(xoe:::C_pending) == 1L) break
  }
  x[] <- 100
  filled <- lapply(1:20, function(i) numeric(1e5) + i) # would overwrite memory that was given back
  invisible(gc())
  invisible(file.create(ready))
} else {
  while (!file.exists(ready)) Sys.sleep(0.01)
  found <- allreduce(c(10, 20, 30), name = "first")
  stopifnot(identical(found, c(11, 22, 33)))
}
stopifnot(identical(allreduce(me, name = "second"), 1L))
while (.Call(xoe:::C_pending) > 0L) Sys.sleep(0.01)

# So does one in init(), which the next init() takes up.
shutdown()
began <- file.path(commandArgs(TRUE)[[1L]], "began")
if (me == 0L) {
  system(sprintf("(sleep 0.5; kill -INT %d) >/dev/null 2>&1 &", Sys.getpid()))
  ended <- tryCatch({ init(); "joined" }, interrupt = function(condition) "interrupted")
  stopifnot(ended == "interrupted", !is_initialized())
  invisible(file.create(began))
} else {
  while (!file.exists(began)) Sys.sleep(0.01)
}
init()
stopifnot(identical(allreduce(1), 2))
cat("rank", me, "passed\n")
