# Rank 1 ends in the manner that the command line names, while the others wait for it.
library(xoe)
init()
me <- xoe::rank()
manner <- commandArgs(TRUE)[[1L]]
invisible(allreduce(1))
if (me == 1L) {
  switch(manner,
    kill = tools::pskill(Sys.getpid(), tools::SIGKILL),
    stop = stop("the data of rank 1 is wrong"),
    quit = quit("no", status = 7),
    leave = quit("no", status = 0),
    shutdown = shutdown()
  )
} else {
  error <- tryCatch(allreduce(1, name = "gradients"), xoe_error = identity)
  stopifnot(inherits(error, "xoe_peer_lost"), error$code == "peer_lost")
  later <- tryCatch(allreduce(2, name = "gradients"), xoe_error = identity)
  stopifnot(inherits(later, "xoe_peer_lost"))
  cat(sprintf("rank %d was told (%s): %s\n", me, paste(error$ranks, collapse = ","), conditionMessage(error)))
  if (manner == "caught") stop(error)
}
