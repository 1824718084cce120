#include "frameworks/plugins/tensorflow_xla.h"

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "frameworks/plugins/xla_calls.h"

namespace xoe::plugins {
namespace {

// xla::ffi::GetXlaFfiApi(): TensorFlow gives its XLA's C interface in no other way.
constexpr const char* kEntry = "_ZN3xla3ffi12GetXlaFfiApiEv";
constexpr int kOldestMinor = 1;

const EngineAccess* the_access_of_calls = nullptr;

xla::Error* collective(xla::CallFrame* frame) { return run_collective(*frame, the_access_of_calls); }
xla::Error* collective_on_gpu(xla::CallFrame* frame) { return run_collective_on_gpu(*frame, the_access_of_calls); }
xla::Error* first_step(xla::CallFrame* frame) { return show_first_step(*frame, first_steps(), false); }
xla::Error* first_step_on_gpu(xla::CallFrame* frame) { return show_first_step(*frame, first_steps(), true); }

struct Target {
  std::string_view name;
  std::string_view platform;
  xla::Handler* handler;
};

constexpr Target kTargets[] = {{"xoe_tensorflow_collective", "Host", &collective},
                               {"xoe_tensorflow_collective", "CUDA", &collective_on_gpu},
                               {"xoe_tensorflow_first_step", "Host", &first_step},
                               {"xoe_tensorflow_first_step", "CUDA", &first_step_on_gpu}};

// Another library in this process may have an XLA of its own.
std::string register_with_xla(const char* library) {
  using Entry = const xla::Api* (*)();
  void* const own = ::dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  const auto entry = reinterpret_cast<Entry>(::dlsym(own != nullptr ? own : RTLD_DEFAULT, kEntry));
  if (own != nullptr) ::dlclose(own);  // it stays: TensorFlow has it
  if (entry == nullptr) return "its XLA gives no access to custom calls";
  const xla::Api* const api = entry();
  if (api == nullptr || api->version.major != 0 || api->version.minor < kOldestMinor)
    return "the interface of its XLA for custom calls has another version";
  for (const Target& target : kTargets) {
    xla::RegisterArguments arguments{};
    arguments.struct_size = sizeof(arguments);
    arguments.name = {target.name.data(), target.name.size()};
    arguments.platform = {target.platform.data(), target.platform.size()};
    arguments.execute = target.handler;
    if (api->register_handler(&arguments) != nullptr) return "its XLA refuses the call " + std::string(target.name);
  }
  return {};
}

}  // namespace

Observer& first_steps() {
  static Observer observer;
  return observer;
}

const char* register_xla_calls(const EngineAccess* access, const char* library) {
  the_access_of_calls = access;
  static const std::string failure = register_with_xla(library);
  return failure.c_str();
}

}  // namespace xoe::plugins
