#include "core/drivers/nvml/nvml.h"

#include "core/base/error.h"
#include "core/drivers/library.h"

namespace xoe {

Result<NvmlApi> load_nvml(const std::string& name) {
  XOE_ASSIGN(const Library library, Library::open({name}));
  NvmlApi api;
  std::string missing;
  for_each_nvml_function(api, [&](auto& function, const char* symbol, bool required) {
    library.find(function, symbol);
    if (function == nullptr && required && missing.empty()) missing = symbol;
  });
  if (!missing.empty())
    return failure(Code::kUnsupported, "{} has no function {}: the driver is too old", name, missing);
  return api;
}

}  // namespace xoe
