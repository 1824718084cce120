# An error that nothing catches ends rank 1, and with it the others, which catch nothing either.
library(xoe)
init()
x <- allreduce(1)
if (xoe::rank() == 1L) stop("the data of rank 1 is wrong")
allreduce(2, name = "gradients")
