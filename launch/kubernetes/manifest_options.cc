#include "launch/kubernetes/manifest_options.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::launch {
namespace {

bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_image(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return is_small_letter(c) || (c >= 'A' && c <= 'Z') || is_digit(c) ||
           std::string_view("._-/:@").find(c) != std::string_view::npos;
  });
}

// The manifest's own mounts are there already.
Status check_claims(const std::vector<ManifestClaim>& claims) {
  const auto covers = [](std::string_view outer, std::string_view inner) {
    return outer == inner || outer == "/" || (inner.starts_with(outer) && inner[outer.size()] == '/');
  };
  for (auto claim = claims.begin(); claim != claims.end(); ++claim) {
    for (const std::string_view own : {kSecretFolder, std::string_view("/dev/shm"), std::string_view("/tmp")})
      if (covers(claim->path, own))
        return failure(Code::kInvalidArgument, "--claim {}:{}: pods have their own {}; choose another path",
                       claim->name, claim->path, own);
    for (auto other = claims.begin(); other != claim; ++other) {
      if (other->path == claim->path) return failure(Code::kInvalidArgument, "--claim: two volumes at {}", claim->path);
      if (other->name != claim->name && other->volume() == claim->volume())
        return failure(Code::kInvalidArgument, "--claim: {} and {} are too alike for one pod", other->name,
                       claim->name);
    }
  }
  return {};
}

}  // namespace

std::string ManifestClaim::volume() const {
  std::string volume = "claim-" + name;
  std::ranges::replace(volume, '.', '-');
  return volume;
}

std::vector<ManifestClaim> claims_of(const ManifestOptions& options) {
  std::vector<ManifestClaim> claims;
  for (const std::string& text : options.claims) {
    auto parts = split_text(text, ':');
    while (parts[1].size() > 1 && parts[1].ends_with('/')) parts[1].pop_back();
    claims.push_back({parts[0], parts[1], parts.size() > 2});
  }
  return claims;
}

bool is_claim(std::string_view text) {
  const auto parts = split_text(text, ':');
  return (parts.size() == 2 || (parts.size() == 3 && parts[2] == "ro")) && is_object_name(parts[0]) &&
         parts[1].size() > 1 && parts[1].starts_with('/');
}

bool is_object_name(std::string_view name) noexcept {
  constexpr std::size_t kMost = 57;  // of 63: the volume of a claim has "claim-" before it
  const auto outer = [](char c) { return is_small_letter(c) || is_digit(c); };
  return !name.empty() && name.size() <= kMost && outer(name.front()) && outer(name.back()) &&
         std::ranges::all_of(name, [&](char c) { return outer(c) || c == '-' || c == '.'; });
}

bool is_manifest_name(std::string_view name) noexcept {
  constexpr std::size_t kMost = 40;  // of 63: JobSet, Job and pod add their own
  return !name.empty() && name.size() <= kMost && is_small_letter(name.front()) && name.back() != '-' &&
         std::ranges::all_of(name, [](char c) { return is_small_letter(c) || is_digit(c) || c == '-'; });
}

const char* manifest_option(const ManifestOptions& options) noexcept {
  if (!options.name.empty()) return "--name";
  if (!options.image.empty()) return "--image";
  if (options.gpus_per_node != 0) return "--gpus-per-node";
  if (!options.device_class.empty()) return "--device-class";
  if (!options.claims.empty()) return "--claim";
  if (!options.queue.empty()) return "--queue";
  return options.secret_name.empty() ? nullptr : "--secret-name";
}

Status check_manifest(const ManifestOptions& options) {
  if (options.image.empty() && options.kind != ManifestKind::kRuntime)
    return failure(Code::kInvalidArgument, "--print-kubernetes: which image? Add --image REGISTRY/NAME:TAG");
  if (!is_image(options.image))
    return failure(Code::kInvalidArgument, "--image {}: an image is REGISTRY/NAME:TAG, without blanks", options.image);
  XOE_TRY(check_claims(claims_of(options)));
  if (!options.device_class.empty() && options.gpus_per_node == 0)
    return failure(Code::kInvalidArgument, "--device-class {}: how many devices has a pod? Add --gpus-per-node N",
                   options.device_class);
  return {};
}

}  // namespace xoe::launch
