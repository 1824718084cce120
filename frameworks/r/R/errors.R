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

# The value that C gave, or the condition that it stands for, as an error of the function that the user called.
value_of <- function(result, call = sys.call(sys.parent())) {
  if (inherits(result, "xoe_failure")) stop(xoe_condition(result$kind, result$message, call))
  result
}

# An argument is wrong: an error of the function that called the caller, a check.
refuse <- function(..., call = sys.call(sys.parent(2L))) {
  stop(xoe_condition("invalid_argument", paste0(...), call))
}
