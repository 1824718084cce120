// The page of a timeline.
#pragma once

#include <string>

#include "measure/pages/timeline_figure.h"

namespace xoe::pages {

std::string timeline_page(const Timeline& timeline, const std::string& title);

}  // namespace xoe::pages
