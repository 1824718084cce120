# On any number of ranks: results of all operations against what base R computes from all ranks' inputs.
library(xoe)
init()
me <- xoe::rank()
n <- size()
ranks <- seq_len(n) - 1L
stopifnot(n == as.integer(Sys.getenv("XOE_SIZE")), me == as.integer(Sys.getenv("XOE_RANK")))
if (Sys.getenv("XOE_PRETEND_HOSTS") == "") stopifnot(local_size() == n)

# Element by element over the list of what the ranks give; what warns there shall warn here.
warned <- function(expression) {
  said <- character()
  value <- withCallingHandlers(expression, warning = function(w) {
    stopifnot(identical(conditionCall(w)[[1L]], quote(allreduce)))
    said <<- c(said, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  list(value = value, said = said)
}
same <- function(found, expected) {
  if (!identical(found, expected)) stop("found ", paste(deparse(found), collapse = ""), ", expected ", paste(deparse(expected), collapse = ""))
}

# Doubles, with every shape that R has.
vectors <- list(
  function(r) c(a = 1, b = r, c = -r / 2),
  function(r) matrix(r + 1:6 / 8, 2, dimnames = list(c("x", "y"), NULL)),
  function(r) array(r + 1:24 / 8, 2:4),
  function(r) array(r, c(1, 2)),
  function(r) numeric(),
  function(r) matrix(0, 0, 3),
  function(r) seq_len(100003) * (r + 1)
)
for (of in vectors) {
  all <- lapply(ranks, of)
  total <- Reduce(`+`, all)
  same(allreduce(of(me)), total)
  stopifnot(isTRUE(all.equal(allreduce(of(me), "average"), total / n, tolerance = 1e-15)))
  same(allreduce(of(me), "min"), Reduce(pmin, all))
  same(allreduce(of(me), "max"), Reduce(pmax, all))
  stopifnot(isTRUE(all.equal(allreduce(of(me), "product"), Reduce(`*`, all), tolerance = 1e-14)))
  same(broadcast(of(me), root = n - 1), of(n - 1L))
}
same(allreduce(2 ^ me, "adasum", name = "one") > 0, TRUE)

# What is not a number stays none.
x <- c(NaN, 1, Inf, NA)
if (me == 0L) x <- c(1, NaN, -Inf, 1)
for (op in c("sum", "average", "min", "max", "product")) {
  found <- is.nan(allreduce(x, op))
  if (n > 1L) same(found[c(1L, 2L)], c(TRUE, TRUE))
}
if (n > 1L) stopifnot(is.na(allreduce(x)[[4L]]))

# Integers: any NA makes NA, and so does a sum that is too large, with a warning.
big <- .Machine$integer.max
of <- function(r) c(r, if (r == n - 1L) NA else r, big, -big, if (r == 0L) big else 0L, -1L)
all <- lapply(ranks, of)
expected <- rowSums(matrix(unlist(lapply(all, as.double)), ncol = n))
fits <- !is.na(expected) & abs(expected) <= big
found <- warned(allreduce(of(me)))
same(found$value, suppressWarnings(as.integer(ifelse(fits, expected, NA))))
same(length(found$said), as.integer(n > 1L))
if (n > 1L) stopifnot(grepl("integer overflow (2 of them)", found$said, fixed = TRUE))
same(allreduce(of(me), "min"), Reduce(pmin, all))
same(allreduce(of(me), "max"), Reduce(pmax, all))
same(allreduce(of(me), "average"), expected / n)
same(allreduce(of(me), "product"), Reduce(`*`, lapply(all, as.double)))
same(allreduce(rep(NA_integer_, 3)), rep(NA_integer_, 3))
same(warned(allreduce(rep(NA_integer_, 3)))$said, character())
same(allreduce(1:3), 1:3 * n)
same(allreduce(me == 0L), 1L)
same(allreduce(c(me == 0L, NA), "max"), c(1L, NA))
same(allreduce(c(TRUE, me == 0L), "mean"), c(1, 1 / n))
old <- options(warn = 2)
stopifnot(inherits(if (n > 1L) try(allreduce(big), silent = TRUE) else try(stop(), silent = TRUE), "try-error"))
options(old)
same(allreduce(complex(real = me, imaginary = -1)), complex(real = sum(ranks), imaginary = -n))

# Gathering: other lengths, and other types, on each rank.
makers <- list(
  function(r) seq_len(r) + 0.5, function(r) rep(c(NA, r), r), function(r) as.raw(rep(r, r + 1L)), function(r) c(r > 0L, NA, FALSE),
  function(r) complex(real = rep(r, r), imaginary = 1), function(r) integer(), function(r) if (r == 0L) logical() else TRUE
)
for (of in makers) same(allgather(of(me)), do.call(c, lapply(ranks, of)))
tables <- list(
  function(r) matrix(r * 100 + seq_len((r + 1) * 3), r + 1, 3, dimnames = list(NULL, c("a", "b", "c"))),
  function(r) matrix(as.integer(r), 2L * r, 2L),
  function(r) matrix(c(TRUE, NA), 2, 5),
  function(r) matrix(complex(real = r, imaginary = 1:4), 2, 2),
  function(r) matrix(as.raw(r + 1:6), 3, 2),
  function(r) matrix(r, 1, 2)
)
for (of in tables) same(allgather(of(me)), do.call(rbind, lapply(ranks, of)))
kinds <- list(
  function(v) v + 0.5, function(v) as.integer(v), function(v) v %% 2 == 0, function(v) as.raw(v %% 256), function(v) complex(real = v, imaginary = -v)
)
for (kind in kinds) for (k in 1:4) for (shift in 0:3) { # on each rank another number of rows, from 0 to 3
  of <- function(r) { rows <- (r + shift) %% 4L; matrix(kind(r * 100 + seq_len(rows * k)), rows, k) }
  same(allgather(of(me)), do.call(rbind, lapply(ranks, of)))
  # Arrays of which the last dimensions are those of a complex number.
  of <- function(r) { rows <- (r + shift) %% 4L; array(kind(r * 100 + seq_len(rows * k)), c(rows, 1L, k)) }
  found <- allgather(of(me))
  same(matrix(found, ncol = k), do.call(rbind, lapply(ranks, function(r) matrix(of(r), ncol = k))))
}
same(dim(allgather(matrix(0, me, 0))), c(sum(ranks), 0L))
of <- function(r) array(r * 1000 + seq_len((r + 1) * 6), c(r + 1, 3, 2))
found <- allgather(of(me))
same(dim(found), c(sum(ranks + 1L), 3L, 2L))
for (k in 1:2) same(matrix(found[, , k], ncol = 3), do.call(rbind, lapply(ranks, function(r) matrix(of(r)[, , k], r + 1, 3))))

# Tables, where all ranks have the same levels; data of a part of the rows.
seen <- function(r) table(factor(rep(c("a", "b"), c(r, 1)), levels = c("a", "b", "c")), dnn = "letter")
same(unclass(as.table(allreduce(unclass(seen(me))))), Reduce(`+`, lapply(ranks, function(r) unclass(seen(r)))))
for (k in c(0, 1, 2, 5, 100)) {
  same(sort(as.integer(allgather(my_part(k)))), seq_len(k))
  same(my_part(k), seq_len(k)[(seq_len(k) - 1L) %% n == me])
}

# Types that broadcast and alltoall move.
for (of in list(function(r) c(r, NA), function(r) c(TRUE, NA, FALSE), function(r) as.raw(r), function(r) 1i * r, function(r) c(r / 2, NA))) {
  same(broadcast(of(me), root = n - 1L), of(n - 1L))
  part <- function(from, to) rep(of(from), to + from)
  same(alltoall(lapply(ranks, function(to) part(me, to))), lapply(ranks, function(from) part(from, me)))
}

# Parts of a reduction: the first ranks get one more.
lengths_of <- function(k) k %/% n + (ranks < k %% n)
mine <- function(k) seq_len(lengths_of(k)[me + 1L]) + sum(lengths_of(k)[seq_len(me)])
for (k in c(0L, 1L, 7L, 1000L)) {
  same(reducescatter(seq_len(k) * 2L), seq_len(k)[mine(k)] * 2L * n)
  same(reducescatter(seq_len(k) / 4, "max"), seq_len(k)[mine(k)] / 4)
  m <- matrix(seq_len(k * 3), k, 3, dimnames = list(NULL, c("a", "b", "c")))
  same(reducescatter(m), m[mine(k), , drop = FALSE] * n)
}

# Objects.
things <- function(r) list(rank = r, letters[seq_len(r)], factor("a"), data.frame(x = 1:3, y = c("u", NA, "w")), as.Date("2026-01-02") + r)
for (again in 1:3) {
  same(allgather_object(things(me)), lapply(ranks, things))
  same(broadcast_object(if (me == n - 1L) things(n - 1L), root = n - 1L), things(n - 1L))
  same(broadcast_object(things(me), name = "settings"), things(0L))
}
fit <- broadcast_object(if (me == 0L) lm(dist ~ speed, cars))
same(round(coef(fit)[["speed"]], 3), 3.932)
same(broadcast_object(NULL), NULL)
same(lengths(allgather_object(raw(1e6 * me))), as.integer(1e6 * ranks))

barrier()
barrier(name = "the end")
same(.Call(xoe:::C_pending), 0L)
shutdown()
init()
same(allreduce(1), as.double(n))
cat("rank", me, "passed\n")
