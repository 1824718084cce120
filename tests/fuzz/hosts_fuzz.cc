// Lists of hosts and configuration files of arbitrary bytes.
#include <cstdint>
#include <string_view>

#include "launch/config_file.h"
#include "launch/hostlist.h"
#include "launch/hosts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xoe::launch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_hosts(text);
  (void)parse_hostfile(text, "f");
  (void)expand_hostlist(text);
  (void)expand_counts(text);
  RunArguments toml;
  (void)read_toml_config(text, "f", toml);
  RunArguments yaml;
  (void)read_yaml_config(text, "f", yaml);
  return 0;
}
