# Joining and leaving the world, and this process's place in it.

# Calls that sent objects, by kind and name, since init(); see R/objects.R.
calls <- new.env(parent = emptyenv())

init <- function(start_timeout = NULL) {
  if (is.null(start_timeout)) start_timeout <- 0
  else if (!is.numeric(start_timeout) || length(start_timeout) != 1L || !is.finite(start_timeout) ||
             start_timeout <= 0 || start_timeout > 1e9) {
    refuse("start_timeout must be a number of seconds above 0", call = sys.call())
  }
  fresh <- !is_initialized()
  if (fresh) refuse_child(sys.call())
  value_of(.Call(C_init, start_timeout))
  if (fresh) rm(list = ls(calls, all.names = TRUE), envir = calls)
  invisible(TRUE)
}

# What launchers give each rank, and the processes that a rank starts inherit.
PLACES <- c("XOE_JOB", "XOE_STORE", "XOE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
PLACES_BEGIN <- c("XOE_", "([A-Z]+_)?RANK$", "([A-Z]+_)?WORLD_SIZE$", "MASTER_", "TORCHELASTIC_", "OMPI_COMM_", "PMI", "SLURM_")

# A process that a rank has started, with parallel::makeCluster() or system2("Rscript"), has that rank's place in its
# environment, which the rank itself holds. So a rank notes there which process has the place.
refuse_child <- function(call) {
  place <- Sys.getenv(PLACES)
  if (all(place == "")) return(invisible())
  place <- paste(place, collapse = " ")
  note <- Sys.getenv("R_XOE_PLACE")
  owner <- sub(" .*", "", note)
  if (nzchar(note) && sub("^[0-9]+ ", "", note) == place && owner != Sys.getpid()) {
    inherited <- Filter(function(begin) any(grepl(paste0("^", begin), names(Sys.getenv()))), PLACES_BEGIN)
    stop(xoe_condition("unavailable", paste0(
      "this process was started by a rank (process ", owner, ") and has inherited its place in the job, but is no rank; ",
      "return its results to that process, and call Xoe there. To make it a world of its own, call first: ",
      "Sys.unsetenv(grep(\"^(", paste(inherited, collapse = "|"), ")\", names(Sys.getenv()), value = TRUE))"), call))
  }
  Sys.setenv(R_XOE_PLACE = paste(Sys.getpid(), place))
}

shutdown <- function() {
  .Call(C_shutdown)
  invisible(TRUE)
}

is_initialized <- function() .Call(C_is_initialized)

topology <- function(which, call) value_of(.Call(C_topology), call)[[which]]

# Where it has an argument it is base::rank(), which it hides.
rank <- function(...) if (...length() > 0L) base::rank(...) else topology("rank", sys.call())
size <- function() topology("size", sys.call())
local_rank <- function() topology("local_rank", sys.call())
local_size <- function() topology("local_size", sys.call())
cross_rank <- function() topology("cross_rank", sys.call())
cross_size <- function() topology("cross_size", sys.call())

xoe_version <- function() value_of(.Call(C_version))

.onLoad <- function(libname, pkgname) xoe_version()

# rank() with an argument is base::rank(), so library() need not warn, once for each rank, that it hides that function.
.onAttach <- function(libname, pkgname) assign(".conflicts.OK", TRUE, envir = as.environment(paste0("package:", pkgname)))

# The library stays in the process (-z nodelete): a handler that runs at exit lies in it.
.onUnload <- function(libpath) {
  shutdown()
  library.dynam.unload("xoe", libpath)
}
