// Where a verb of `xoe bench` puts its result: a table or JSON on standard output, JSON and a page in files.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "xoe/status.h"

namespace xoe::bench {

struct OutputFlags {
  bool json = false;   // in place of text
  std::string output;  // a file for the JSON; empty: none
  std::string html;    // a file for the page
  bool overwrite = false;
};

// `output_names`: those of the option for the JSON's file.
void add_output(CLI::App& verb, OutputFlags& flags, const char* output_names = "--output");

// Prints and writes what is asked for; page() makes the page.
Status put_out(const OutputFlags& flags, std::string_view text, const nlohmann::ordered_json& json,
               const std::function<std::string()>& page);

}  // namespace xoe::bench
