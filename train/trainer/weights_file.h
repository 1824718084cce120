// Named tensors in files that other programs read and write: PyTorch's state dict, and safetensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/trainer/exported_file.h"
#include "xoe/status.h"

namespace xoe::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Reads all tensors of a file, of whose name check_export_name() says the format. `invalid_argument`: no such file, or
// another kind of name; `data_loss`: it is not of its format, or holds something else than tensors by name, or these
// have more than twice its bytes; it names the file. A state dict may be that of torch.save(), in a zip file or as
// before PyTorch 1.6; no code of it runs. Tensors that share bytes in the file may share them here.
Result<NamedTensors> read_tensors(const std::string& path);

// Writes contiguous tensors in host memory to a new file, which appears whole or not at all. `invalid_argument`: the
// file exists. Only safetensors keep the metadata.
Status write_tensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                     ExportFormat format, const std::string& path);

}  // namespace xoe::train
