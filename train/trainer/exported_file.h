// What an export of weights reads and writes, as far as names go.
#pragma once

#include <cstdint>
#include <string>

#include "xoe/status.h"

namespace xoe::train {

enum class ExportFormat : std::uint8_t { kTorch, kSafetensors };

// By the name's ending: .pt and .pth, or .safetensors; `invalid_argument` for others.
Result<ExportFormat> check_export_name(const std::string& path);

// `invalid_argument`: a new file cannot have this name.
Error file_exists(const std::string& path);

// The checkpoint that `run` names: that file; the newest one of a folder; of a run's folder, the newest one that its
// metrics.jsonl tells of. `invalid_argument`: there is none.
Result<std::string> find_checkpoint(const std::string& run);

}  // namespace xoe::train
