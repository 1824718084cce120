#include "core/drivers/rocm/rocm_smi.h"

#include "core/base/error.h"
#include "core/drivers/library.h"

namespace xoe {

Result<RocmSmiApi> load_rocm_smi(const std::string& name) {
  XOE_ASSIGN(const Library library, Library::open({name}));
  RocmSmiApi api;
  std::string missing;
  for_each_rocm_smi_function(api, [&](auto& function, const char* symbol, bool required) {
    library.find(function, symbol);
    if (function == nullptr && required && missing.empty()) missing = symbol;
  });
  if (!missing.empty()) return failure(Code::kUnsupported, "{} has no function {}: ROCm is too old", name, missing);
  return api;
}

}  // namespace xoe
