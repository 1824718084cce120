// Everything a libtorch program needs:
//   xoe::torch::broadcast_parameters(*model, world);
//   auto optimizer = xoe::torch::DistributedOptimizer::create(sgd, *model, world).value();
#pragma once

#include "xoe/torch/broadcast.h"
#include "xoe/torch/elastic.h"
#include "xoe/torch/layerwise.h"
#include "xoe/torch/optimizer.h"
#include "xoe/torch/tensors.h"
