// A file system for SQLite whose device loses, tears and reorders what was not flushed when the power goes.
#pragma once

#include <sqlite3.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/testing/scratch.h"

namespace xoe::pool::testing {

// While it lives, databases that are opened are in its memory. One at a time, of one thread.
class PowerVfs {
 public:
  static constexpr std::size_t kSector = 512;
  using Image = std::map<std::string, std::string>;  // what is on the device, by the file's suffix: "", "-wal"

  explicit PowerVfs(unsigned seed) : random_(seed), host_(sqlite3_vfs_find(nullptr)) {
    vfs_.iVersion = 2;
    vfs_.szOsFile = sizeof(OpenFile);
    vfs_.mxPathname = host_->mxPathname;
    vfs_.zName = "xoe-power";
    vfs_.pAppData = this;
    vfs_.xOpen = open;
    vfs_.xDelete = [](sqlite3_vfs* vfs, const char* path, int) {
      of(vfs).files_.erase(path);
      return SQLITE_OK;
    };
    vfs_.xAccess = [](sqlite3_vfs* vfs, const char* path, int, int* there) {
      *there = of(vfs).files_.contains(path) ? 1 : 0;
      return SQLITE_OK;
    };
    vfs_.xFullPathname = [](sqlite3_vfs*, const char* path, int size, char* full) {
      sqlite3_snprintf(size, full, "%s", path);
      return SQLITE_OK;
    };
    vfs_.xRandomness = [](sqlite3_vfs* vfs, int size, char* bytes) {
      return of(vfs).host_->xRandomness(of(vfs).host_, size, bytes);
    };
    vfs_.xSleep = [](sqlite3_vfs* vfs, int time) { return of(vfs).host_->xSleep(of(vfs).host_, time); };
    vfs_.xCurrentTimeInt64 = [](sqlite3_vfs* vfs, sqlite3_int64* now) {
      return of(vfs).host_->xCurrentTimeInt64(of(vfs).host_, now);
    };
    vfs_.xGetLastError = [](sqlite3_vfs*, int, char*) { return 0; };
    sqlite3_vfs_register(&vfs_, 1);
  }
  PowerVfs(const PowerVfs&) = delete;
  PowerVfs& operator=(const PowerVfs&) = delete;
  ~PowerVfs() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(host_, 1);
  }

  // Databases that are opened from now on are on the real file system again.
  void step_aside() { sqlite3_vfs_register(host_, 1); }
  // Called before each write, truncation and flush: with the file's path and whether it is a flush.
  std::function<void(const std::string& path, bool flush)> on_change = [](const std::string&, bool) {};

  // What a power cut now would leave.
  Image cut() {
    Image image;
    for (auto& [path, file] : files_) {
      std::string bytes = file.durable;
      for (const Change& change : file.pending) lose_or_apply(bytes, change);
      image[path.ends_with("-wal") ? "-wal" : ""] = bytes;
    }
    return image;
  }
  static void put(const Image& image, const std::string& path) {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
    for (const auto& [suffix, bytes] : image) put_file(path + suffix, bytes);
  }

 private:
  struct Change {
    std::size_t at = 0;
    std::string bytes = {};
    bool truncates = false;  // to `at`
  };
  struct File {
    std::string now = {};
    std::string durable = {};
    std::vector<Change> pending = {};
    std::deque<std::vector<char>> shared = {};  // regions of the log's index, which keep their addresses
  };
  struct OpenFile {
    sqlite3_file base;
    PowerVfs* vfs;
    File* file;
    const std::string* path;
  };

  static PowerVfs& of(sqlite3_vfs* vfs) { return *static_cast<PowerVfs*>(vfs->pAppData); }
  static OpenFile& of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }

  static void apply(std::string& bytes, const Change& change) {
    if (change.truncates) return bytes.resize(change.at);
    if (bytes.size() < change.at + change.bytes.size()) bytes.resize(change.at + change.bytes.size());
    std::memcpy(bytes.data() + change.at, change.bytes.data(), change.bytes.size());
  }

  // Each sector of a write is on the device or not, in any order.
  void lose_or_apply(std::string& bytes, const Change& change) {
    const int fate = pick(3);
    if (fate == 0) return;
    if (fate == 1 || change.truncates) return apply(bytes, change);
    for (std::size_t at = 0; at < change.bytes.size(); at += kSector)
      if (pick(2) == 0) apply(bytes, {change.at + at, change.bytes.substr(at, kSector)});
  }

  void change(OpenFile& open, Change change) {
    on_change(*open.path, false);
    apply(open.file->now, change);
    open.file->pending.push_back(std::move(change));
  }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
    static const sqlite3_io_methods kMethods = methods();
    OpenFile& opened = of(file);
    const auto found = of(vfs).files_.try_emplace(path == nullptr ? "temporary" : path).first;
    opened = {{&kMethods}, &of(vfs), &found->second, &found->first};
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }

  static sqlite3_io_methods methods() {
    sqlite3_io_methods io = {};
    io.iVersion = 2;
    // Of one connection, which shares it with no other.
    io.xShmMap = [](sqlite3_file* file, int region, int size, int extend, void volatile** at) {
      auto& regions = of(file).file->shared;
      if (extend != 0 && static_cast<std::size_t>(region) >= regions.size())
        regions.resize(static_cast<std::size_t>(region) + 1);
      const bool is_there = static_cast<std::size_t>(region) < regions.size();
      if (is_there) regions[static_cast<std::size_t>(region)].resize(static_cast<std::size_t>(size));
      *at = is_there ? regions[static_cast<std::size_t>(region)].data() : nullptr;
      return SQLITE_OK;
    };
    io.xShmLock = [](sqlite3_file*, int, int, int) { return SQLITE_OK; };
    io.xShmBarrier = [](sqlite3_file*) {};
    io.xShmUnmap = [](sqlite3_file* file, int) {
      of(file).file->shared.clear();
      return SQLITE_OK;
    };
    io.xClose = [](sqlite3_file*) { return SQLITE_OK; };
    io.xRead = [](sqlite3_file* file, void* to, int size, sqlite3_int64 at) {
      const std::string& bytes = of(file).file->now;
      const auto begin = std::min(static_cast<std::size_t>(at), bytes.size());
      const auto count = std::min(static_cast<std::size_t>(size), bytes.size() - begin);
      std::memset(to, 0, static_cast<std::size_t>(size));
      std::memcpy(to, bytes.data() + begin, count);
      return count == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
    };
    io.xWrite = [](sqlite3_file* file, const void* from, int size, sqlite3_int64 at) {
      of(file).vfs->change(of(file), {static_cast<std::size_t>(at),
                                      std::string(static_cast<const char*>(from), static_cast<std::size_t>(size))});
      return SQLITE_OK;
    };
    io.xTruncate = [](sqlite3_file* file, sqlite3_int64 size) {
      of(file).vfs->change(of(file), {.at = static_cast<std::size_t>(size), .truncates = true});
      return SQLITE_OK;
    };
    io.xSync = [](sqlite3_file* file, int) {
      of(file).vfs->on_change(*of(file).path, true);
      of(file).file->durable = of(file).file->now;
      of(file).file->pending.clear();
      return SQLITE_OK;
    };
    io.xFileSize = [](sqlite3_file* file, sqlite3_int64* size) {
      *size = static_cast<sqlite3_int64>(of(file).file->now.size());
      return SQLITE_OK;
    };
    io.xLock = [](sqlite3_file*, int) { return SQLITE_OK; };
    io.xUnlock = [](sqlite3_file*, int) { return SQLITE_OK; };
    io.xCheckReservedLock = [](sqlite3_file*, int* taken) {
      *taken = 0;
      return SQLITE_OK;
    };
    io.xFileControl = [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; };
    io.xSectorSize = [](sqlite3_file*) { return static_cast<int>(kSector); };
    io.xDeviceCharacteristics = [](sqlite3_file*) { return 0; };
    return io;
  }

  std::mt19937 random_;
  sqlite3_vfs* host_;
  sqlite3_vfs vfs_ = {};
  std::map<std::string, File> files_;  // a node's address stays
};

}  // namespace xoe::pool::testing
