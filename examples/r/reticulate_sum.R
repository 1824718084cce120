# The sum over all ranks, from R through Python: xoe run -np 2 Rscript examples/r/reticulate_sum.R
# The package of frameworks/r does so without Python: see regression.R.
# It needs the package reticulate, and PyTorch and Xoe in the Python that reticulate takes (RETICULATE_PYTHON).
library(reticulate)

xoe <- import("xoe.torch")
torch <- import("torch")

xoe$init()
mine <- torch$full(list(4L), xoe$rank() + 1)
total <- xoe$allreduce(mine, op = xoe$Sum)
cat(sprintf("rank %d of %d: the sum is %g\n", xoe$rank(), xoe$size(), total$mean()$item()))
xoe$shutdown()
