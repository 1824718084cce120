# The bootstrap of a regression's slope, each rank with a part of the replicates:
#   xoe run -np 2 Rscript examples/r/bootstrap.R
library(xoe)
init()

# A stream of random numbers for each replicate, so that the result does not depend on the number of ranks.
RNGkind("L'Ecuyer-CMRG")
set.seed(7)
replicates <- 500
streams <- Reduce(function(stream, i) parallel::nextRNGStream(stream), seq_len(replicates - 1), .Random.seed, accumulate = TRUE)

slopes <- numeric(replicates) # 0 where another rank has the replicate
for (i in my_part(replicates)) {
  .Random.seed <- streams[[i]]
  rows <- sample(nrow(cars), replace = TRUE)
  slopes[i] <- coef(lm(dist ~ speed, cars[rows, ]))[["speed"]]
}
slopes <- allreduce(slopes, name = "slopes")

if (xoe::rank() == 0) {
  limits <- quantile(slopes, c(0.025, 0.975))
  cat(sprintf("%d rank%s: %d replicates, standard error %.6f, 95%% from %.6f to %.6f\n", size(), if (size() == 1) "" else "s",
              sum(slopes != 0), sd(slopes), limits[[1]], limits[[2]]))
}
shutdown()
