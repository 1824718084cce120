# A process that a rank starts inherits its place, and is told so; without the variables it is a world of its own.
library(xoe)
init()
me <- xoe::rank()
script <- tempfile(fileext = ".R")
writeLines(c(
  "library(xoe)",
  "error <- tryCatch(init(), xoe_error = identity)",
  "stopifnot(inherits(error, 'xoe_unavailable'), grepl('started by a rank', conditionMessage(error)), !is_initialized())",
  "stopifnot(grepl(commandArgs(TRUE)[[1L]], conditionMessage(error)))",
  "advised <- sub('.*first: ', '', conditionMessage(error))",
  "eval(parse(text = advised))",
  "init()",
  "stopifnot(size() == 1L, identical(allreduce(7), 7))",
  "cat('child passed\\n')"
), script)
said <- system2(file.path(R.home("bin"), "Rscript"), c(script, Sys.getpid()), stdout = TRUE, stderr = TRUE)
if (!identical(said, "child passed")) stop(paste(said, collapse = "\n"))
# The rank itself may leave and join again.
shutdown()
init()
stopifnot(identical(allreduce(1), as.double(size())))
cat("rank", me, "passed\n")
