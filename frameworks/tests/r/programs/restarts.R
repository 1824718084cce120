# A sum over steps that goes on after a lost rank, from what rank 0 has saved. The command line: a folder for it.
library(xoe)
saved <- file.path(commandArgs(TRUE)[[1L]], "state.rds")
died <- file.path(commandArgs(TRUE)[[1L]], "died")
repeat {
  tryCatch({
    init()
    state <- broadcast_object(if (xoe::rank() == 0 && file.exists(saved)) readRDS(saved) else list(step = 0, total = 0))
    while (state$step < 6) {
      if (state$step == 3 && xoe::rank() == 1 && !file.exists(died)) {
        file.create(died)
        tools::pskill(Sys.getpid(), tools::SIGKILL)
      }
      state$total <- state$total + allreduce(state$step, "average", name = "total")
      state$step <- state$step + 1
      if (xoe::rank() == 0) {
        saveRDS(state, paste0(saved, ".new"))
        file.rename(paste0(saved, ".new"), saved)
      }
    }
    break
  }, xoe_peer_lost = function(lost) shutdown())
}
cat("rank", xoe::rank(), "of", size(), "has", state$total, "\n")
