#include "xoe/data/image_maker.h"

#include "base/error.h"
#include "data/load/make_image.h"

namespace xoe::data {

struct ImageMaker::Parts {
  ImageTools tools;
};

ImageMaker::ImageMaker() : parts_(std::make_unique<Parts>()) {}
ImageMaker::ImageMaker(ImageMaker&&) noexcept = default;
ImageMaker& ImageMaker::operator=(ImageMaker&&) noexcept = default;
ImageMaker::~ImageMaker() = default;

Status ImageMaker::make(const ImageMaking& making, std::string_view file, std::uint64_t key, void* pixels) {
  XOE_TRY(check(making));
  ImageRecord record;
  record.bytes = file;
  return make_image(parts_->tools, making, record, key, pixels);
}

}  // namespace xoe::data
