#include "data/cli/convert/manifest.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "data/files/listing.h"

namespace xoe::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxManifestBytes = std::size_t{64} << 20;

std::string manifest_path(const std::string& directory) { return directory + "/.xoe-convert.json"; }

// Paths need not be UTF-8.
std::string as_json_keeps(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

// 0: missing, or not an integer.
std::int64_t number(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
}

}  // namespace

bool Manifest::exists(const std::string& directory) { return ::access(manifest_path(directory).c_str(), F_OK) == 0; }

Result<std::unique_ptr<Manifest>> Manifest::open(const std::string& directory, const std::string& command) {
  Fd lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) return failure(Code::kUnavailable, "{}: cannot open: {}", directory, errno_text(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return failure(Code::kInvalidArgument, "{}: another conversion is running there", directory);
  const bool begun = exists(directory);
  std::unique_ptr<Manifest> manifest(new Manifest(manifest_path(directory), as_json_keeps(command), std::move(lock)));
  XOE_TRY(begun ? manifest->load() : manifest->save());
  return manifest;
}

Status Manifest::load() {
  XOE_ASSIGN(const std::string text, read_whole(path_, kMaxManifestBytes));
  const Json content = Json::parse(text, nullptr, false);
  const auto fits = [](const Json& from, const char* name, Json::value_t type) {
    return from.is_object() && from.contains(name) && from[name].type() == type;
  };
  if (!fits(content, "command", Json::value_t::string) || !fits(content, "shards", Json::value_t::array))
    return failure(Code::kDataLoss, "{}: damaged; remove it and the images that were converted so far", path_);
  if (const auto begun = content["command"].get<std::string>(); begun != command_)
    return failure(Code::kInvalidArgument,
                   "{}: an unfinished conversion of another source or with other options ({}; now {}): finish "
                   "that one, or remove the directory",
                   path_, begun, command_);
  for (const Json& shard : content["shards"]) {
    if (!shard.is_object()) continue;
    shards_[static_cast<int>(number(shard, "shard"))] = {number(shard, "images"), number(shard, "skipped"),
                                                         static_cast<std::uint64_t>(number(shard, "bytes")),
                                                         number(shard, "highest")};
  }
  return {};
}

Status Manifest::save() const {
  Json content = {{"command", command_}, {"shards", Json::array()}};
  for (const auto& [shard, facts] : shards_)
    content["shards"].push_back({{"shard", shard},
                                 {"images", facts.images},
                                 {"skipped", facts.skipped},
                                 {"bytes", facts.bytes},
                                 {"highest", facts.highest}});
  return write_file(path_, content.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<FinishedShard> Manifest::finished(int shard) const {
  const std::lock_guard lock(mutex_);
  const auto at = shards_.find(shard);
  return at == shards_.end() ? std::nullopt : std::optional(at->second);
}

Status Manifest::add(int shard, const FinishedShard& facts) {
  const std::lock_guard lock(mutex_);
  shards_[shard] = facts;
  return save();
}

bool Manifest::empty() const {
  const std::lock_guard lock(mutex_);
  return shards_.empty();
}

FinishedShard Manifest::sum() const {
  const std::lock_guard lock(mutex_);
  FinishedShard sum;
  for (const auto& [shard, facts] : shards_) {
    sum.images += facts.images;
    sum.skipped += facts.skipped;
    sum.bytes += facts.bytes;
    sum.highest = std::max(sum.highest, facts.highest);
  }
  return sum;
}

Status Manifest::remove() {
  if (::unlink(path_.c_str()) == 0) return {};
  return failure(Code::kUnavailable, "{}: cannot remove: {}", path_, errno_text(errno));
}

}  // namespace xoe::data
