// Images that are files of their own: what folder.cc and nih_chest.cc read.
#pragma once

#include <string>
#include <vector>

#include "data/files/missing.h"
#include "data/source/image_source.h"

namespace xoe::data {

// One group, with either a label or targets for each file.
class FileImages final : public ImageSource {
 public:
  struct Content {
    std::string root;  // the directory of the data set
    std::vector<std::string> paths;
    std::vector<std::uint64_t> sizes;
    std::vector<std::int64_t> labels;
    std::vector<float> targets;  // `classes` for each file, when not empty
    int classes = 0;
    std::vector<std::string> class_names;
    std::int64_t lost = 0;
    std::vector<std::string> warnings;
    std::vector<std::string> remarks;
  };
  explicit FileImages(Content content) : content_(std::move(content)) {}

  std::int64_t records() const noexcept override { return static_cast<std::int64_t>(content_.paths.size()); }
  bool own_files() const noexcept override { return true; }
  Result<ImageRecord> read(std::int64_t record, std::string& buffer) const override;
  Result<std::int64_t> label(std::int64_t record, std::string&) const override {
    return content_.labels[static_cast<std::size_t>(record)];
  }
  std::string name(std::int64_t record) const override { return content_.paths[static_cast<std::size_t>(record)]; }
  ImageOrigin origin(std::int64_t record) const override { return {name(record), 0, name(record)}; }
  int classes() const noexcept override { return content_.classes; }
  std::vector<std::string> class_names() const override { return content_.class_names; }
  bool multi_label() const noexcept override { return !content_.targets.empty(); }
  std::int64_t lost() const noexcept override { return content_.lost; }
  std::vector<std::string> warnings() const override { return content_.warnings; }
  std::vector<std::string> remarks() const override { return content_.remarks; }
  std::size_t files() const noexcept override { return content_.paths.size(); }
  OpenedFile file(std::size_t number) const override;
  std::uint64_t labels_fingerprint() const override;

 private:
  Content content_;
};

// Finds the sizes of the files, and leaves out those that are none, of which `missing` is told.
void keep_files(FileImages::Content& content, int threads, MissingData& missing);

}  // namespace xoe::data
