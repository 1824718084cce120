# Failures become conditions: xoe_error, and before it a class for the code, which says what to do next.

# Behind "failed: " another program may speak; what it says of ranks is not Xoe's.
ranks_named <- function(message) {
  own <- sub(" failed: .*", "", message)
  listed <- regmatches(own, gregexpr("\\branks? [0-9]+(( and |, and |, )[0-9]+)*", own))[[1L]]
  sort(unique(as.integer(unlist(regmatches(listed, gregexpr("[0-9]+", listed))))))
}

xoe_condition <- function(kind, message, call) {
  code <- switch(kind, mismatch = "invalid_argument", not_initialized = "unavailable", kind)
  structure(
    class = c(unique(paste0("xoe_", c(kind, code))), "xoe_error", "error", "condition"),
    list(message = message, call = call, code = code, ranks = ranks_named(message))
  )
}

# What the engine says of ranks that differ, with the words of this package for what only it submits.
mismatch_text <- function(message) {
  refused <- "submitted [a-z_]+\\((?:float32 \\[0\\])?[^{};]*refused there \\{([^{}]*)\\}\\)"
  message <- gsub(refused, "refused the call before it began (\\1)", message, perl = TRUE)
  if (grepl(", names '", message, fixed = TRUE)) {
    message <- paste0(message, "; give x the same names on all ranks, or none: unname(x)")
  }
  message
}

# The value that C gave, or the condition that it stands for, as an error of the function that the user called.
value_of <- function(result, call = sys.call(sys.parent())) {
  if (!inherits(result, "xoe_failure")) return(result)
  last$reason <- result$message
  stop(xoe_condition(result$kind, if (result$kind == "mismatch") mismatch_text(result$message) else result$message, call))
}

# An argument is wrong: an error of the function that called the caller, a check.
refuse <- function(..., call = sys.call(sys.parent(2L))) {
  last$reason <- paste0(...)
  stop(xoe_condition("invalid_argument", last$reason, call))
}

# ---- A call that ends before it has submitted anything --------------------------------------------------------------
# The other ranks submit their operation of that call, and this rank's next one would meet it. So a refusal is submitted
# in place of the operation: that call fails on all ranks, and the next ones meet each other.

REASON <- 120L # characters

last <- new.env(parent = emptyenv()) # reason: of the error that this package has just raised

adasum <- function(op) tryCatch(identical(op, "adasum"), error = function(error) FALSE)

# For on.exit(). before: C_submitted from before the operation, NULL where it did not come to that.
tell_refusal <- function(kind, name, before) {
  reason <- last$reason
  last$reason <- NULL
  if (!is.null(before) && .Call(C_submitted) > before) return(invisible())
  # Of a name that cannot be computed or is wrong, no rank waits for.
  name <- tryCatch(suppressWarnings(list(check_name(name))), error = function(error) NULL)
  last$reason <- NULL
  if (is.null(name)) return(invisible())
  if (is.null(reason)) reason <- "its arguments could not be computed, or it was interrupted"
  # Xoe sends so much of it, and a brace behind it.
  reason <- gsub("[{}[:cntrl:]]+", " ", reason)
  if (nchar(reason) > REASON) reason <- paste0(substr(reason, 1L, REASON - 3L), "...")
  .Call(C_refuse, kind, name[[1L]], enc2utf8(paste0("refused there {", reason, "}")))
  invisible()
}
