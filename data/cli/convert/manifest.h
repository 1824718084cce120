// The finished shards of an interrupted conversion: DIR/.xoe-convert.json, which is removed at the end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/fd.h"
#include "xoe/status.h"

namespace xoe::data {

struct FinishedShard {
  std::int64_t images = 0;
  std::int64_t skipped = 0;
  std::uint64_t bytes = 0;
  std::int64_t highest = -1;  // label; -1: no image
};

// Locks the directory for one process. Thread safety: any thread at any time.
class Manifest {
 public:
  // Reads the manifest, or creates it. `invalid_argument`: it belongs to another command, or another process is
  // converting to this directory; `data_loss`: it is damaged.
  static Result<std::unique_ptr<Manifest>> open(const std::string& directory, const std::string& command);
  static bool exists(const std::string& directory);

  std::optional<FinishedShard> finished(int shard) const;
  Status add(int shard, const FinishedShard& facts);
  bool empty() const;
  // Over all finished shards.
  FinishedShard sum() const;
  Status remove();

 private:
  Manifest(std::string path, std::string command, Fd lock)
      : path_(std::move(path)), command_(std::move(command)), lock_(std::move(lock)) {}
  Status load();
  Status save() const;

  std::string path_;
  std::string command_;
  Fd lock_;
  mutable std::mutex mutex_;
  std::map<int, FinishedShard> shards_;
};

}  // namespace xoe::data
