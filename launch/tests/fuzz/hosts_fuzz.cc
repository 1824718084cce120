// Lists of hosts and configuration files of arbitrary bytes.
#include <cstdint>
#include <string_view>

#include "core/base/text.h"
#include "launch/options/config_file.h"
#include "launch/remote/host_list.h"
#include "target.h"

XOE_FUZZ_TARGET(hosts_fuzz) {
  using namespace xoe::launch;
  namespace remote = xoe::remote;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  (void)remote::parse_hosts(text);
  (void)remote::parse_hostfile(text, "f");
  (void)remote::expand_hostlist(text);
  (void)xoe::expand_counts(text);
  RunArguments toml;
  (void)read_toml_config(text, "f", toml);
  RunArguments yaml;
  (void)read_yaml_config(text, "f", yaml);
  return 0;
}
