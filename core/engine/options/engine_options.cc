#include "core/engine/options/engine_options.h"

#include <cctype>
#include <chrono>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/known_variables.h"
#include "core/describe/text.h"
#include "core/engine/options/option_fields.h"

namespace xoe {
namespace {

struct Setting {
  std::string name;  // the variable that was read
  std::string value;
};

std::string own_name(std::string_view field) {
  std::string name = "XOE_";
  for (const char c : field) name.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return name;
}

tl::unexpected<Error> malformed(const Setting& setting, std::string_view expected) {
  return failure(Code::kInvalidArgument, "environment variable {}={}: expected {}", setting.name, setting.value,
                 expected);
}

// Reads the variables, and knows afterwards which fields they have set.
class Reader {
 public:
  Reader(const Env& env, EngineOptions& options, std::vector<std::string>& warnings)
      : env_(env), options_(options), warnings_(warnings) {}

  Status read() {
    XOE_TRY(read_switch("HOROVOD_STALL_CHECK_DISABLE", unchecked_));
    if (unchecked_) options_.stall_warning = options_.stall_limit = std::chrono::nanoseconds(0);
    Status done;
    describe::for_each_field<EngineOptions>([&](const auto& field) {
      if (done) done = read_field(field);
    });
    XOE_TRY(done);
    // Values that the user has chosen stay, unless the user has asked for tuning too.
    if (!has("tune") && (has("fusion_threshold") || has("pack_limit") || has("in_flight"))) options_.tune = false;
    // A limit that the user has chosen is kept to the second.
    options_.stall_spares_computing = !has("stall_limit");
    bool disabled = false;
    if (!has("nvtx")) XOE_TRY(read_switch("HOROVOD_DISABLE_NVTX_RANGES", disabled));
    if (disabled) options_.nvtx = false;
    return {};
  }

 private:
  bool has(std::string_view field) const { return set_.contains(field); }

  // Xoe's own variable, or else Horovod's.
  std::optional<Setting> find(std::string_view field) {
    std::string own = own_name(field);
    if (auto value = env_.text(own)) return Setting{std::move(own), std::move(*value)};
    const auto theirs = engine::horovod_name(field);
    const bool stall = field.starts_with("stall_");
    if (theirs && !(stall && unchecked_))
      if (auto value = env_.text(*theirs); value && has_meaning(field, *value))
        return Setting{std::string(*theirs), std::move(*value)};
    if (field != "stall_limit") return std::nullopt;
    if (auto value = env_.text("XOE_TIMEOUT")) return Setting{"XOE_TIMEOUT", std::move(*value)};
    return std::nullopt;
  }

  // Whether this value of Horovod's variable says anything to Xoe.
  bool has_meaning(std::string_view field, std::string_view value) {
    // Horovod must know beforehand that start_timeline() will be called; Xoe need not.
    if (field == "timeline" && value == "DYNAMIC") return false;
    if (field != "cache_capacity" || value != "0") return true;
    warnings_.emplace_back("HOROVOD_CACHE_CAPACITY=0 has no meaning here: names are always remembered");
    return false;
  }

  template <auto kMember>
  Status read_field(const describe::Field<kMember>& field) {
    using Value = typename describe::Field<kMember>::Value;
    const auto setting = find(field.name);
    if (!setting) return {};
    auto value = describe::read_text<Value>(setting->value, field.rules);
    if (!value || !describe::check_value(*value, field.name, field.rules, "engine"))
      return malformed(*setting, describe::choices_of<Value>(field.rules));
    field.of(options_) = std::move(*value);
    set_.insert(field.name);
    return {};
  }

  Status read_switch(std::string_view name, bool& on) {
    const auto text = env_.text(name);
    if (!text) return {};
    const auto value = describe::read_text<bool>(*text, {});
    if (!value) return malformed({std::string(name), *text}, describe::choices_of<bool>({}));
    on = *value;
    return {};
  }

  const Env& env_;
  EngineOptions& options_;
  std::vector<std::string>& warnings_;
  bool unchecked_ = false;  // no operation is watched for ranks that are missing
  std::set<std::string_view> set_;
};

}  // namespace

Result<EngineOptions> read_engine_options(const Env& env, std::vector<std::string>& warnings) {
  EngineOptions options;
  XOE_TRY(Reader(env, options, warnings).read());
  // `xoe run`, which alone sets this, has told of them already.
  if (!env.has("XOE_CROSS_SIZE"))
    for (std::string& sentence : misspelt_variables(env)) warnings.push_back(std::move(sentence));
  for (const auto& [name, value] : env.all()) {
    if (value.empty() || !name.starts_with("HOROVOD_")) continue;
    // For programs that read Horovod's name, such as HOROVOD_RANK.
    if (env.text("XOE_" + name.substr(std::string_view("HOROVOD_").size())) == value) continue;
    if (const auto reason = engine::why_no_meaning(name))
      warnings.push_back(fmt::format("{} is set and has no meaning here: {}", name, *reason));
  }
  return options;
}

Result<EngineOptions> read_engine_options(std::vector<std::string>& warnings) {
  return read_engine_options(Env::process(), warnings);
}

}  // namespace xoe
