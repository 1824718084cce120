#include "train/networks/image_model.h"

#include "train/networks/layers.h"

namespace xoe::models {

int ImageModel::recompute_blocks(bool on) {
  int blocks = 0;
  for (const auto& module : modules(/*include_self=*/false))
    if (auto* const chain = module->as<Chain>()) blocks += chain->recompute_blocks(on);
  return blocks;
}

}  // namespace xoe::models
