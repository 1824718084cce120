// What an interrupted conversion has finished: DIR/.xoe-convert.json, which goes when all is done.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/fd.h"
#include "xoe/status.h"

namespace xoe::data {

struct FinishedShard {
  std::int64_t images = 0;
  std::int64_t skipped = 0;
  std::uint64_t bytes = 0;
  std::int64_t highest = -1;  // label; -1: none
};

// Holds the directory for one process. Thread safety: any thread at any time.
class Manifest {
 public:
  // Goes on with what is there. `invalid_argument`: what is there was begun with another command, or another process is
  // at work there; `data_loss`: it is damaged.
  static Result<std::unique_ptr<Manifest>> open(const std::string& directory, const std::string& command);
  static bool exists(const std::string& directory);

  std::optional<FinishedShard> finished(int shard) const;
  Status add(int shard, const FinishedShard& facts);
  bool empty() const;
  // Of all.
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
