#include "measure/cli/output_flags.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "measure/pages/page.h"

namespace xoe::bench {

void add_output(CLI::App& verb, OutputFlags& flags, const char* output_names) {
  verb.option_defaults()->group("Output");
  verb.add_flag("--json", flags.json, "print one JSON object in place of text");
  verb.add_option(output_names, flags.output, "also write the JSON object to a file")->type_name("FILE");
  verb.add_option("--html", flags.html, "also write a page with plots and tables")->type_name("FILE");
  verb.add_flag("--overwrite", flags.overwrite, "--html may replace a file that is no page of Xoe");
}

Status put_out(const OutputFlags& flags, std::string_view text, const nlohmann::ordered_json& json,
               const std::function<std::string()>& page) {
  const std::string object = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  fmt::print("{}", flags.json ? object : text);
  std::fflush(stdout);
  if (!flags.output.empty()) XOE_TRY(write_file(flags.output, object));
  return flags.html.empty() ? Status() : pages::write_page(flags.html, page(), flags.overwrite);
}

}  // namespace xoe::bench
