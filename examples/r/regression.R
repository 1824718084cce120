# Logistic regression by gradient descent, each rank on its own part of the rows:
#   xoe run -np 2 Rscript examples/r/regression.R
library(xoe)
init()

# Here every rank makes all rows and takes every size()-th; a program of yours would read its own part.
set.seed(1)
rows <- 2000
x <- cbind(intercept = 1, dose = rnorm(rows), age = runif(rows, -1, 1), treated = rbinom(rows, 1, 0.5))
y <- rbinom(rows, 1, plogis(drop(x %*% c(-0.5, 1.2, 0.8, -1))))
mine <- my_part(rows)

# The gradient of the mean log-likelihood: the ranks' parts, summed.
gradient <- function(weights) {
  wrong <- y[mine] - plogis(drop(x[mine, ] %*% weights))
  allreduce(drop(crossprod(x[mine, ], wrong)), name = "gradient") / rows
}

weights <- broadcast(c(intercept = 0, dose = 0, age = 0, treated = 0))
for (step in seq_len(2000)) weights <- weights + 2 * gradient(weights)

loss <- -allreduce(sum(dbinom(y[mine], 1, plogis(drop(x[mine, ] %*% weights)), log = TRUE)), name = "loss") / rows
if (xoe::rank() == 0) {
  fit <- glm(y ~ x - 1, family = binomial, control = list(epsilon = 1e-14))
  cat(sprintf("%d rank%s: %s; loss %.4f; largest difference from glm(): %.1e\n", size(), if (size() == 1) "" else "s",
              paste(names(weights), round(weights, 3), collapse = ", "), loss, max(abs(weights - coef(fit)))))
}
shutdown()
