# Collectives of any value of R. Reading a serialized value can run code, so nothing is read that no rank of this world
# has signed with the world's key, for this call: its kind, its name, and its place among the calls of that kind and
# name.

# What a signature covers beside the data.
call_text <- function(kind, name, number, sender) {
  sprintf("R %s %d:%s call %d from rank %d\n", kind, nchar(name, "bytes"), name, number, sender)
}

signed <- function(data, text) .Call(C_signed, text, data)

# The object in `length` bytes of a message, behind the first `before`.
read_signed <- function(message, text, sender, call, before = 0, length = base::length(message)) {
  data <- .Call(C_data_of_signed, text, message, before, length)
  if (is.null(data)) {
    stop(xoe_condition("data_loss", paste0(
      "the object from rank ", sender, " is not what that rank sent: the network between the ranks changed it, or a ",
      "program sends vectors under this name; nothing was read"), call))
  }
  unserialize(data)
}

# What send(text_of) gives, where text_of(sender) is what a signature of this call covers, and text_of itself. All ranks
# count the calls of a kind and name. One that fails does not count; one that is interrupted does, since it goes on.
# After join() ranks would have counted other calls, so an object needs all ranks.
numbered <- function(kind, name, send) {
  name <- if (is.null(name)) "" else name
  key <- paste(kind, name)
  number <- get0(key, envir = calls, inherits = FALSE, ifnotfound = 0L)
  text_of <- function(sender) call_text(kind, name, number, sender)
  assign(key, number + 1L, envir = calls)
  received <- withCallingHandlers(send(text_of), xoe_error = function(error) assign(key, number, envir = calls))
  list(received = received, text_of = text_of)
}

serialized <- function(object) serialize(object, NULL, xdr = FALSE)

broadcast_object <- function(object = NULL, root = 0, name = NULL) {
  before <- NULL
  on.exit(tell_refusal("broadcast_bytes", name, before))
  root <- check_root(root)
  name <- check_name(name)
  here <- sys.call()
  sends <- topology("rank", here) == root
  data <- if (sends) serialized(object)
  call <- numbered("broadcast_object", name, function(text_of) {
    message <- if (sends) signed(data, text_of(root)) else raw()
    before <<- .Call(C_submitted)
    value_of(.Call(C_broadcast_bytes, message, root, name), here)
  })
  if (sends) object else read_signed(call$received, call$text_of(root), root, here)
}

allgather_object <- function(object, name = NULL) {
  before <- NULL
  on.exit(tell_refusal("allgather", name, before))
  name <- check_name(name)
  here <- sys.call()
  me <- topology("rank", here)
  data <- serialized(object)
  call <- numbered("allgather_object", name, function(text_of) {
    message <- signed(data, text_of(me))
    before <<- .Call(C_submitted)
    value_of(.Call(C_allgather, message, name, NULL, TRUE), here)
  })
  sent <- call$received$rows
  Map(function(sender, before, length) {
    # What this rank has sent itself is not checked; its copy is a new one, as the others' are.
    if (sender == me) unserialize(data)
    else read_signed(call$received$values, call$text_of(sender), sender, here, before, length)
  }, seq_along(sent) - 1L, cumsum(sent) - sent, sent)
}
