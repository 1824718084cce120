// Features and images as JSON, as `xoe data inspect` shows them.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "data/records/example.h"
#include "data/source/image_source.h"

namespace xoe::tools {

using Json = nlohmann::ordered_json;

// One value in full, text as text; more or longer ones as a count.
Json show_short(const data::FeatureView& feature);
// Up to 100 values, long or binary ones as their size.
Json show_long(const data::FeatureView& feature);

// Kind, size and colour of an image, or what is wrong with it.
Json show_image(const data::ImageRecord& record);

std::string to_text(const Json& json, int indent = -1);

}  // namespace xoe::tools
