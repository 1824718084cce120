// The facts in the header of a record's image, read without decoding it.
#pragma once

#include "data/codec/codec.h"
#include "data/source/image_source.h"
#include "xoe/status.h"

namespace xoe::data {

// `data_loss`: neither an encoded image nor pixels, or truncated in front of the size.
Result<ImageFacts> read_image_facts(const ImageRecord& record, Codecs& codecs);

}  // namespace xoe::data
