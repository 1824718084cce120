# The guide's program that goes on after a lost rank, from what rank 0 has saved. The command line: the folder for it.
library(xoe)
setwd(commandArgs(TRUE)[[1L]])

work_on <- function(step) {
  if (step == 3 && xoe::rank() == 1 && !file.exists("died")) { # once
    file.create("died")
    tools::pskill(Sys.getpid(), tools::SIGKILL)
  }
  step
}

repeat {
  tryCatch({
    init()
    state <- list(step = 0, total = 0)
    if (rank() == 0 && file.exists("state.rds")) state <- readRDS("state.rds")
    state <- broadcast_object(state)
    while (state$step < 6) {
      state$total <- state$total + allreduce(work_on(state$step), "average", name = "total")
      state$step <- state$step + 1
      if (rank() == 0) {
        saveRDS(state, "state.new")
        file.rename("state.new", "state.rds") # a rank that dies here leaves a file that is whole
      }
    }
    break
  }, xoe_peer_lost = function(lost) shutdown())
}
cat("rank", rank(), "of", size(), "has", state$total, "\n")
