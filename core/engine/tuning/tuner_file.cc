#include "core/engine/tuning/tuner_file.h"

#include <cerrno>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/output_file.h"

namespace xoe::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFileBytes = 64 << 10;
constexpr std::size_t kMaxEntries = 128;
constexpr std::int64_t kMaxValue = std::int64_t{1} << 62;

struct Entry {
  TunedFor place;
  Tuned tuned;
};

std::optional<std::int64_t> integer(const Json& object, const char* key, std::int64_t low) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  // An unsigned value beyond int64 is read as a negative one.
  const auto value = found->get<std::int64_t>();
  return value >= low && value <= kMaxValue ? std::optional(value) : std::nullopt;
}

std::optional<Entry> parse_entry(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto ranks = integer(object, "ranks", 1);
  const auto hosts = integer(object, "hosts", 1);
  const auto bytes = integer(object, "bytes_per_step", 1);
  const auto tensors = integer(object, "tensors_per_step", 1);
  const auto fusion = integer(object, "fusion_threshold", 0);
  const auto pack = integer(object, "pack_limit", 0);
  const auto in_flight = integer(object, "in_flight", 1);
  if (!ranks || !hosts || !bytes || !tensors || !fusion || !pack || !in_flight) return std::nullopt;
  if (*ranks > INT32_MAX || *hosts > *ranks || *in_flight > 8) return std::nullopt;
  const Knobs knobs{static_cast<std::size_t>(*fusion), static_cast<std::size_t>(*pack), static_cast<int>(*in_flight)};
  if (!knobs.on_grid()) return std::nullopt;
  return Entry{{static_cast<int>(*ranks), static_cast<int>(*hosts)},
               {{static_cast<double>(*bytes), static_cast<double>(*tensors)}, knobs}};
}

// All entries, or none and the reason.
std::optional<std::vector<Entry>> parse_file(const std::string& text, std::string& why) {
  if (text.size() > kMaxFileBytes) {
    why = "it is larger than 64 KiB";
    return std::nullopt;
  }
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    why = "it is not JSON";
    return std::nullopt;
  }
  const bool ours = root.is_object() && root.value("format", Json()) == "xoe tuning" &&
                    root.value("version", Json()) == 1 && root.contains("entries") && root["entries"].is_array();
  if (!ours || root["entries"].size() > kMaxEntries) {
    why = "it is not a tuning file of version 1";
    return std::nullopt;
  }
  std::vector<Entry> entries;
  for (const Json& object : root["entries"]) {
    const auto entry = parse_entry(object);
    if (!entry) {
      why = fmt::format("entry {} is malformed", entries.size());
      return std::nullopt;
    }
    entries.push_back(*entry);
  }
  return entries;
}

std::string print_file(const std::vector<Entry>& entries) {
  Json list = Json::array();
  for (const Entry& entry : entries) {
    list.push_back({{"ranks", entry.place.ranks},
                    {"hosts", entry.place.hosts},
                    {"bytes_per_step", static_cast<std::int64_t>(entry.tuned.workload.bytes)},
                    {"tensors_per_step", static_cast<std::int64_t>(entry.tuned.workload.tensors)},
                    {"fusion_threshold", entry.tuned.knobs.fusion_threshold},
                    {"pack_limit", entry.tuned.knobs.pack_limit},
                    {"in_flight", entry.tuned.knobs.in_flight}});
  }
  return Json{{"format", "xoe tuning"}, {"version", 1}, {"entries", std::move(list)}}.dump(2) + "\n";
}

}  // namespace

std::vector<Tuned> load_tuned(const std::string& path, const TunedFor& place, std::string& warning) {
  const auto text = read_start(path, kMaxFileBytes + 1);
  if (!text) {
    if (errno != ENOENT) warning = fmt::format("cannot read the tuning file {}: {}", path, errno_text(errno));
    return {};
  }
  std::string why;
  const auto entries = parse_file(*text, why);
  if (!entries) {
    warning = fmt::format("the tuning file {} is ignored: {}", path, why);
    return {};
  }
  std::vector<Tuned> tuned;
  for (const Entry& entry : *entries)
    if (entry.place == place) tuned.push_back(entry.tuned);
  return tuned;
}

Status save_tuned(const std::string& path, const TunedFor& place, const std::vector<Tuned>& tuned) {
  std::vector<Entry> entries;
  std::string why;
  const auto text = read_start(path, kMaxFileBytes + 1);
  if (!text && errno != ENOENT)  // other jobs' entries may be in it
    return failure(Code::kUnavailable, "tuning file: {} cannot be read, and so stays as it is: {}", path,
                   errno_text(errno));
  if (text)
    if (auto old = parse_file(*text, why)) entries = std::move(*old);
  std::erase_if(entries, [&](const Entry& entry) { return entry.place == place; });
  for (const Tuned& one : tuned) entries.push_back({place, one});
  // Drops the oldest first.
  if (entries.size() > kMaxEntries)
    entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(kMaxEntries));
  if (const Status written = write_file(path, print_file(entries)); !written)
    return failure(written.error().code(), "tuning file: {}", written.error().message());
  return {};
}

}  // namespace xoe::engine
